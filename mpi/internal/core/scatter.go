package core

import (
	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/perf"
)

// Scatter copies part i of src at root to dst of rank i.
func (c *Comm) Scatter(dst, src []byte, k Elements, root int) error {
	if c.isInter() {
		return c.interScatter(collMode{call: perf.Scatter, start: Blocking}, dst, src, k, root)
	}
	const op = "Scatter"
	if err := c.beginIntracomm(perf.Scatter, len(dst)); err != nil {
		return err
	}
	defer c.endCollective()
	src, dst, err := c.gatherBlocks(op, src, dst, k, root)
	if c.checks {
		err = c.compareCall(c.newCollCall(perf.Scatter, k, len(dst)).rooted(root), err)
	}
	if err != nil {
		return err
	}
	c.coll.shm.expectRoot(root)
	if f := c.coll.shmFor(coll.OfScatter, len(dst), k.shape(opCodeNone, root)); f != nil {
		return c.wrapError(op, f.Scatter(dst, src, root))
	}
	return c.wrapError(op, coll.Scatter(&c.coll, dst, src, root))
}

// Scatterv is Scatter with counts and displacements in elements; nil displacements mean consecutive parts.
func (c *Comm) Scatterv(dst, src []byte, counts, displs []int, k Elements, root int) error {
	if c.isInter() {
		return c.interScatterv(collMode{call: perf.Scatterv, start: Blocking}, dst, src, counts, displs, k, root)
	}
	const op = "Scatterv"
	if err := c.beginIntracomm(perf.Scatterv, len(dst)); err != nil {
		return err
	}
	defer c.endCollective()
	at, dst, err := c.partsAtRoot(op, src, counts, displs, dst, k, root)
	if c.checks {
		call := c.newCollCall(perf.Scatterv, k, len(dst)).rooted(root)
		call.Counts = at.Counts
		err = c.compareCall(call, err)
	}
	if err != nil {
		return err
	}
	return c.wrapError(op, coll.Scatterv(&c.coll, dst, src, at, root))
}
