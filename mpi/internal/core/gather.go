package core

import (
	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/perf"
)

// Gather collects src of all ranks into dst at root.
func (c *Comm) Gather(dst, src []byte, k Elements, root int) error {
	if c.isInter() {
		return c.interGather(collMode{call: perf.Gather, start: Blocking}, dst, src, k, root)
	}
	const op = "Gather"
	if err := c.beginIntracomm(perf.Gather, len(src)); err != nil {
		return err
	}
	defer c.endCollective()
	dst, src, err := c.gatherBlocks(op, dst, src, k, root)
	if c.checks {
		err = c.compareCall(c.newCollCall(perf.Gather, k, len(src)).rooted(root), err)
	}
	if err != nil {
		return err
	}
	if f := c.coll.shmFor(coll.OfGather, len(src), k.shape(opCodeNone, root)); f != nil {
		return c.wrapError(op, f.Gather(dst, src, root))
	}
	return c.wrapError(op, coll.Gather(&c.coll, dst, src, root))
}

// Gatherv is Gather with counts and displacements in elements; nil displacements mean consecutive parts.
func (c *Comm) Gatherv(dst []byte, counts, displs []int, src []byte, k Elements, root int) error {
	if c.isInter() {
		return c.interGatherv(collMode{call: perf.Gatherv, start: Blocking}, dst, counts, displs, src, k, root)
	}
	const op = "Gatherv"
	if err := c.beginIntracomm(perf.Gatherv, len(src)); err != nil {
		return err
	}
	defer c.endCollective()
	at, src, err := c.partsAtRoot(op, dst, counts, displs, src, k, root)
	if c.checks {
		call := c.newCollCall(perf.Gatherv, k, len(src)).rooted(root)
		call.Counts = at.Counts
		err = c.compareCall(call, err)
	}
	if err != nil {
		return err
	}
	return c.wrapError(op, coll.Gatherv(&c.coll, dst, at, src, root))
}
