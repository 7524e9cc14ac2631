package core

import (
	"fmt"
)

// Abort ends all processes of the job with an exit code from 1 to 255.
func (p *Process) Abort(code int) error {
	if err := p.checkUsable("Abort"); err != nil {
		return err
	}
	p.recording.stopProfile()
	why := fmt.Sprintf("rank %d called Abort(%d)", p.boot.Rank, code)
	if p.check {
		why += " at " + callPosition()
	}
	err := p.boot.Abort(code, why)
	p.engine.Processes().Abort(err)
	return newError("Abort", ErrProcFailed, err)
}
