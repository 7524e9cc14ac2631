package mpi

import (
	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/perf"
)

// Gather collects src of all ranks into dst at root, in the order of ranks. Other ranks do not use dst, which may be
// nil. In place at root: src is dst, or root's part of dst. MPI-5.0 §6.5.
func Gather[T Elem](c *Comm, dst, src []T, root int) error {
	return c.gather(bytesOf(dst), bytesOf(src), kindOf[T](), root)
}

func (c *Comm) gather(dst, src []byte, k datatype.Kind, root int) error {
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
	if f := c.coll.flatFor(coll.OfGather, len(src), callShape{kind: k, root: root}); f != nil {
		return c.wrapError(op, f.Gather(dst, src, root))
	}
	return c.wrapError(op, coll.Gather(&c.coll, dst, src, root))
}

// Gatherv collects src of all ranks into dst at root: counts[i] elements of rank i at displs[i], or consecutively if
// displs is nil. Only root uses dst, counts and displs. In place at root as in Gather. MPI-5.0 §6.5.
func Gatherv[T Elem](c *Comm, dst []T, counts, displs []int, src []T, root int) error {
	return c.gatherv(bytesOf(dst), counts, displs, bytesOf(src), kindOf[T](), root)
}

func (c *Comm) gatherv(dst []byte, counts, displs []int, src []byte, k datatype.Kind, root int) error {
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
