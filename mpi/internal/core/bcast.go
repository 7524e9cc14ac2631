package core

import (
	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/perf"
)

// Bcast copies the root's b to b of every rank.
func (c *Comm) Bcast(b []byte, k Elements, root int) error {
	if c.isInter() {
		return c.interBcast(collMode{call: perf.Bcast, start: Blocking}, b, root)
	}
	const op = "Bcast"
	if err := c.beginIntracomm(perf.Bcast, len(b)); err != nil {
		return err
	}
	defer c.endCollective()
	err := c.checkRoot(op, root)
	if c.checks {
		err = c.compareCall(c.newCollCall(perf.Bcast, k, len(b)).rooted(root), err)
	}
	if err != nil {
		return err
	}
	c.coll.shm.expectRoot(root)
	if f := c.coll.shmFor(coll.OfBcast, len(b), k.shape(opCodeNone, root)); f != nil {
		return c.wrapError(op, f.Bcast(b, root))
	}
	return c.wrapError(op, coll.Bcast(&c.coll, b, root))
}
