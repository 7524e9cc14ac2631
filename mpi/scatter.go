package mpi

import (
	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/perf"
)

// Scatter copies part i of root's src to dst of rank i. Other ranks do not use src, which may be nil. In place at
// root: dst is src, or root's part of src. MPI-5.0 §6.6.
func Scatter[T Elem](c *Comm, dst, src []T, root int) error {
	return c.scatter(bytesOf(dst), bytesOf(src), kindOf[T](), root)
}

func (c *Comm) scatter(dst, src []byte, k datatype.Kind, root int) error {
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
	if f := c.coll.flatFor(coll.OfScatter, len(dst), callShape{kind: k, root: root}); f != nil {
		return c.wrapError(op, f.Scatter(dst, src, root))
	}
	return c.wrapError(op, coll.Scatter(&c.coll, dst, src, root))
}

// Scatterv copies a part of root's src to dst of every rank: counts[i] elements at displs[i] to rank i, or
// consecutive parts if displs is nil. Only root uses src, counts and displs. In place at root as in Scatter.
// MPI-5.0 §6.6.
func Scatterv[T Elem](c *Comm, dst []T, src []T, counts, displs []int, root int) error {
	return c.scatterv(bytesOf(dst), bytesOf(src), counts, displs, kindOf[T](), root)
}

func (c *Comm) scatterv(dst, src []byte, counts, displs []int, k datatype.Kind, root int) error {
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
