package core

import (
	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/perf"
)

// Gather collects src of all ranks into dst at root.
func (c *Comm) Gather(dst, src []byte, k Elements, root int) error {
	if c.isInter() {
		return c.interGather(dst, src, k, root)
	}
	const op = "Gather"
	if err := c.beginIntracomm(perf.Gather, len(src)); err != nil {
		return err
	}
	defer c.endCollective()
	err := c.checkRoot(op, root)
	if root != c.Rank() {
		dst = nil
	} else if err == nil {
		src, err = c.ownBlock(op, dst, src, k.Size())
	}
	if c.checks {
		err = c.compareCall(c.newCollCall(perf.Gather, k, len(src)).rooted(root), err)
	}
	if err != nil {
		return err
	}
	if f := c.coll.flatFor(coll.OfGather, len(src), k.shape(opCodeNone, root)); f != nil {
		return c.wrapError(op, f.Gather(dst, src, root))
	}
	return c.wrapError(op, coll.Gather(&c.coll, dst, src, root))
}

// Gatherv is Gather with counts and displacements in elements; nil displacements mean consecutive parts.
func (c *Comm) Gatherv(dst []byte, counts, displs []int, src []byte, k Elements, root int) error {
	if c.isInter() {
		return c.interGatherv(dst, counts, displs, src, k, root)
	}
	const op = "Gatherv"
	if err := c.beginIntracomm(perf.Gatherv, len(src)); err != nil {
		return err
	}
	defer c.endCollective()
	err := c.checkRoot(op, root)
	var at coll.Layout
	if root != c.Rank() {
		counts = nil
	} else if at, src, err = c.ownPartAtRoot(op, dst, counts, displs, src, k.Size()); err != nil {
		counts = nil
	}
	if c.checks {
		call := c.newCollCall(perf.Gatherv, k, len(src)).rooted(root)
		call.Counts = counts
		err = c.compareCall(call, err)
	}
	if err != nil {
		return err
	}
	return c.wrapError(op, coll.Gatherv(&c.coll, dst, at, src, root))
}
