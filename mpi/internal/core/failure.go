package core

import (
	"fmt"
	"slices"
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
	p.engine.Abort(err)
	return newError("Abort", ErrProcFailed, err)
}

// membersOf returns the processes with which this one communicates in a context; nil for an unknown context.
func (p *Process) membersOf(context uint32) (members []int32) {
	p.comms.Range(func(c, _ any) bool {
		if c := c.(*Comm); c.contextID == context&^collectiveBit {
			members = c.peers
		}
		return members == nil
	})
	return members
}

// needsPeer reports whether process n, which is lost, belongs to a communicator that this process still uses. If n has closed in
// order, communicators that are being freed do not count.
func (p *Process) needsPeer(n int32, closed bool) (missed bool) {
	p.comms.Range(func(c, _ any) bool {
		c2 := c.(*Comm)
		missed = !(closed && c2.freeing.Load()) && slices.Contains(c2.coll.main.peers, n)
		return !missed
	})
	return missed
}
