package mpi

import (
	"fmt"

	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/perf"
)

// Bcast gives every rank the root's x, which has the same length at all. MPI-5.0 §6.4.
func Bcast[T Elem](c *Comm, x []T, root int) error { return c.bcast(bytesOf(x), root) }

func (c *Comm) bcast(b []byte, root int) error {
	const op = "Bcast"
	if err := c.beginIntracomm(perf.Bcast, len(b)); err != nil {
		return err
	}
	defer c.endCollective()
	if err := c.checkRoot(op, root); err != nil {
		return err
	}
	if f := c.coll.flatFor(coll.OfBcast, len(b)); f != nil {
		return c.wrapError(op, f.Bcast(b, root))
	}
	return c.wrapError(op, coll.Bcast(&c.coll, b, root))
}

// Gather collects src of all ranks in dst at root, in the order of ranks; dst is not used elsewhere and may be nil.
// In place at root: src is dst, or the part of dst that is root's. MPI-5.0 §6.5.
func Gather[T Elem](c *Comm, dst, src []T, root int) error {
	return c.gather(bytesOf(dst), bytesOf(src), sizeOf[T](), root)
}

func (c *Comm) gather(dst, src []byte, elem, root int) error {
	const op = "Gather"
	if err := c.beginIntracomm(perf.Gather, len(src)); err != nil {
		return err
	}
	defer c.endCollective()
	if err := c.checkRoot(op, root); err != nil {
		return err
	}
	if root == c.Rank() {
		var err error
		if src, err = c.ownBlock(op, dst, src, elem); err != nil {
			return err
		}
	} else {
		dst = nil
	}
	if f := c.coll.flatFor(coll.OfGather, len(src)); f != nil {
		return c.wrapError(op, f.Gather(dst, src, root))
	}
	return c.wrapError(op, coll.Gather(&c.coll, dst, src, root))
}

// ownBlock checks a rank's own block against the whole of n such, and returns it; in place, as the collectives want
// to see it: at the beginning of the whole.
func (c *Comm) ownBlock(op string, whole, block []byte, elem int) ([]byte, error) {
	n := len(c.peers)
	if sameStart(whole, block) && len(whole) == len(block) && n > 1 {
		if err := c.checkDivisible(op, whole, elem); err != nil {
			return nil, err
		}
		return whole[:len(whole)/n], nil
	}
	if len(whole) != n*len(block) {
		return nil, c.newError(op, ErrCount, fmt.Errorf("%d bytes in all, %d for each of %d ranks", len(whole), len(block), n))
	}
	if at := int(c.rank) * len(block); sameStart(whole[at:], block) {
		return whole[:len(block)], nil
	}
	return block, c.checkOverlap(op, whole, block)
}

// checkDivisible refuses a buffer that does not hold the same number of elements for each rank.
func (c *Comm) checkDivisible(op string, b []byte, elem int) error {
	if len(b)%(elem*len(c.peers)) != 0 {
		return c.newError(op, ErrCount, fmt.Errorf("%d elements for %d ranks", len(b)/elem, len(c.peers)))
	}
	return nil
}

// Scatter gives each rank its part of root's src, in dst; src is not used elsewhere and may be nil. In place at
// root: dst is src, or the part of src that is root's. MPI-5.0 §6.6.
func Scatter[T Elem](c *Comm, dst, src []T, root int) error {
	return c.scatter(bytesOf(dst), bytesOf(src), sizeOf[T](), root)
}

func (c *Comm) scatter(dst, src []byte, elem, root int) error {
	const op = "Scatter"
	if err := c.beginIntracomm(perf.Scatter, len(dst)); err != nil {
		return err
	}
	defer c.endCollective()
	if err := c.checkRoot(op, root); err != nil {
		return err
	}
	if root == c.Rank() {
		var err error
		if dst, err = c.ownBlock(op, src, dst, elem); err != nil {
			return err
		}
	} else {
		src = nil
	}
	if f := c.coll.flatFor(coll.OfScatter, len(dst)); f != nil {
		return c.wrapError(op, f.Scatter(dst, src, root))
	}
	return c.wrapError(op, coll.Scatter(&c.coll, dst, src, root))
}

// Allgather collects src of all ranks in dst of each, in the order of ranks. In place: src is dst, or the part of
// dst that is this rank's. MPI-5.0 §6.7.
func Allgather[T Elem](c *Comm, dst, src []T) error {
	return c.allgather(perf.Allgather, bytesOf(dst), bytesOf(src), sizeOf[T]())
}

func (c *Comm) allgather(as perf.Op, dst, src []byte, elem int) error {
	op := as.String()
	if err := c.beginIntracomm(as, len(src)); err != nil {
		return err
	}
	defer c.endCollective()
	src, err := c.ownBlock(op, dst, src, elem)
	if err != nil {
		return err
	}
	if f := c.coll.flatFor(coll.OfAllgather, len(src)); f != nil {
		return c.wrapError(op, f.Allgather(dst, src))
	}
	return c.wrapError(op, coll.Allgather(&c.coll, dst, src))
}

// Alltoall sends part i of src to rank i, where it becomes the part of dst that has this rank's number. dst and src
// have one length and may be the same slice. MPI-5.0 §6.8.
func Alltoall[T Elem](c *Comm, dst, src []T) error {
	return c.alltoall(perf.Alltoall, bytesOf(dst), bytesOf(src), sizeOf[T]())
}

func (c *Comm) alltoall(as perf.Op, dst, src []byte, elem int) error {
	op := as.String()
	if err := c.beginIntracomm(as, len(src)); err != nil {
		return err
	}
	defer c.endCollective()
	if err := c.checkSameSize(op, dst, src); err != nil {
		return err
	}
	if err := c.checkDivisible(op, src, elem); err != nil {
		return err
	}
	if f := c.coll.flatFor(coll.OfAlltoall, len(src)/len(c.peers)); f != nil {
		return c.wrapError(op, f.Alltoall(dst, src))
	}
	return c.wrapError(op, coll.Alltoall(&c.coll, dst, src))
}
