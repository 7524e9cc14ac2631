package mpi

import (
	"fmt"
	"slices"
)

// Abort ends all processes of the job with an exit code from 1 to 255. The system keeps the last 8 bits of other
// codes, and 0 becomes 1. Abort does not return under a launcher or in a world of one process. In a test with mpitest
// it ends that world and returns an error. MPI-5.0 §9.4.
func (p *Process) Abort(code int) error {
	p.stopProfile()
	why := fmt.Sprintf("rank %d called Abort(%d)", p.boot.Rank, code)
	err := p.boot.Abort(code, why)
	p.engine.Abort(err)
	return newError("Abort", ErrProcFailed, err)
}

// needsPeer reports whether process n, which has closed, belongs to a communicator that this process still uses.
func (p *Process) needsPeer(n int32) (missed bool) {
	p.comms.Range(func(c, _ any) bool {
		c2 := c.(*Comm)
		missed = !c2.freeing.Load() && slices.Contains(c2.coll.peers, n)
		return !missed
	})
	return missed
}
