package core

import (
	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/perf"
)

// Barrier blocks until all ranks have called it; on an intercommunicator, the ranks of both groups.
func (c *Comm) Barrier() error { return c.barrier(perf.Barrier) }

func (c *Comm) barrier(call perf.Op) error {
	op := call.String()
	if err := c.beginCollective(call, 0); err != nil {
		return err
	}
	defer c.endCollective()
	if c.checks {
		if err := c.compareCall(&collCall{Call: call, Idups: c.idupSeq.Load()}, nil); err != nil {
			return err
		}
	}
	if f := c.coll.shmFor(coll.OfBarrier, 0, callShape{}); f != nil {
		return c.wrapError(op, f.BarrierBefore(c.coll.shm.takeRoot()))
	}
	if call == perf.Finalize { // over the connections of Init: others would be made for this barrier only
		return c.wrapError(op, coll.BarrierTree(&c.coll))
	}
	return c.wrapError(op, coll.Barrier(&c.coll))
}

// Ibarrier starts a Barrier.
func (c *Comm) Ibarrier(start Start) (r Request, err error) {
	m := collMode{call: perf.Ibarrier, req: &r, start: start}
	err = c.startCollective(m, 0, func(*coll.Operation) error { return nil },
		func() *collCall { return &collCall{Call: m.call} },
		func(p coll.Peer, _ *coll.Operation) error { return coll.Barrier(p) })
	return r, err
}
