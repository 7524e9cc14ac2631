package core

import (
	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/perf"
)

// Scatter copies part i of src at root to dst of rank i.
func (c *Comm) Scatter(dst, src []byte, k Elements, root int) error {
	if c.isInter() {
		return c.interScatter(dst, src, k, root)
	}
	const op = "Scatter"
	if err := c.beginIntracomm(perf.Scatter, len(dst)); err != nil {
		return err
	}
	defer c.endCollective()
	err := c.checkRoot(op, root)
	if root != c.Rank() {
		src = nil
	} else if err == nil {
		dst, err = c.ownBlock(op, src, dst, k.Size())
	}
	if c.checks {
		err = c.compareCall(c.newCollCall(perf.Scatter, k, len(dst)).rooted(root), err)
	}
	if err != nil {
		return err
	}
	if f := c.coll.flatFor(coll.OfScatter, len(dst), k.shape(opCodeNone, root)); f != nil {
		return c.wrapError(op, f.Scatter(dst, src, root))
	}
	return c.wrapError(op, coll.Scatter(&c.coll, dst, src, root))
}

// Scatterv is Scatter with counts and displacements in elements; nil displacements mean consecutive parts.
func (c *Comm) Scatterv(dst, src []byte, counts, displs []int, k Elements, root int) error {
	if c.isInter() {
		return c.interScatterv(dst, src, counts, displs, k, root)
	}
	const op = "Scatterv"
	if err := c.beginIntracomm(perf.Scatterv, len(dst)); err != nil {
		return err
	}
	defer c.endCollective()
	err := c.checkRoot(op, root)
	var at coll.Layout
	if root != c.Rank() {
		counts = nil
	} else if at, dst, err = c.ownPartAtRoot(op, src, counts, displs, dst, k.Size()); err != nil {
		counts = nil
	}
	if c.checks {
		call := c.newCollCall(perf.Scatterv, k, len(dst)).rooted(root)
		call.Counts = counts
		err = c.compareCall(call, err)
	}
	if err != nil {
		return err
	}
	return c.wrapError(op, coll.Scatterv(&c.coll, dst, src, at, root))
}
