package mpi

import (
	"fmt"

	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/perf"
)

// newLayout checks where the blocks of all ranks lie in a buffer. Without displacements they follow each other.
func (c *Comm) newLayout(op string, b []byte, counts, displs []int, elem int) (coll.Layout, error) {
	if _, err := c.sumCounts(op, counts); err != nil {
		return coll.Layout{}, err
	}
	if displs == nil {
		displs = make([]int, len(counts))
		for i := 1; i < len(counts); i++ {
			displs[i] = displs[i-1] + counts[i-1]
		}
	}
	if len(displs) != len(counts) {
		return coll.Layout{}, c.newError(op, ErrCount, fmt.Errorf("%d displacements for %d ranks", len(displs), len(counts)))
	}
	n := len(b) / elem
	for i := range counts {
		if displs[i] < 0 || displs[i] > n || counts[i] > n-displs[i] {
			return coll.Layout{}, c.newError(op, ErrCount,
				fmt.Errorf("%d elements at %d for rank %d do not fit a buffer of %d", counts[i], displs[i], i, n))
		}
	}
	return coll.Layout{Counts: counts, Displs: displs, Elem: elem}, nil
}

// ownPart checks a rank's own block against its place in the whole. In place it is the whole, or just that place,
// and is returned as the collectives want to see it: at the beginning of the whole.
func (c *Comm) ownPart(op string, whole []byte, at coll.Layout, block []byte) ([]byte, error) {
	count, from := at.Counts[c.rank]*at.Elem, at.Displs[c.rank]*at.Elem
	if sameStart(whole, block) && len(whole) == len(block) {
		return whole[:count], nil
	}
	if len(block) != count {
		return nil, c.newError(op, ErrCount, fmt.Errorf("the own block has %d bytes, its count says %d", len(block), count))
	}
	if sameStart(whole[from:], block) {
		return whole[:count], nil
	}
	return block, c.checkOverlap(op, whole, block)
}

// Gatherv collects src of all ranks in dst at root: counts[i] elements of rank i at displs[i], or one after the
// other if displs is nil. What concerns dst counts at root only. In place at root as in Gather. MPI-5.0 §6.5.
func Gatherv[T Elem](c *Comm, dst []T, counts, displs []int, src []T, root int) error {
	return c.gatherv(bytesOf(dst), counts, displs, bytesOf(src), sizeOf[T](), root)
}

func (c *Comm) gatherv(dst []byte, counts, displs []int, src []byte, elem, root int) error {
	const op = "Gatherv"
	if err := c.beginIntracomm(perf.Gatherv, len(src)); err != nil {
		return err
	}
	defer c.endCollective()
	if err := c.checkRoot(op, root); err != nil {
		return err
	}
	var at coll.Layout
	if root == c.Rank() {
		var err error
		if at, err = c.newLayout(op, dst, counts, displs, elem); err != nil {
			return err
		}
		if src, err = c.ownPart(op, dst, at, src); err != nil {
			return err
		}
	}
	return c.wrapError(op, coll.Gatherv(&c.coll, dst, at, src, root))
}

// Scatterv gives each rank its part of root's src, in dst: counts[i] elements at displs[i] for rank i, or one after
// the other if displs is nil. What concerns src counts at root only. In place at root as in Scatter. MPI-5.0 §6.6.
func Scatterv[T Elem](c *Comm, dst []T, src []T, counts, displs []int, root int) error {
	return c.scatterv(bytesOf(dst), bytesOf(src), counts, displs, sizeOf[T](), root)
}

func (c *Comm) scatterv(dst, src []byte, counts, displs []int, elem, root int) error {
	const op = "Scatterv"
	if err := c.beginIntracomm(perf.Scatterv, len(dst)); err != nil {
		return err
	}
	defer c.endCollective()
	if err := c.checkRoot(op, root); err != nil {
		return err
	}
	var at coll.Layout
	if root == c.Rank() {
		var err error
		if at, err = c.newLayout(op, src, counts, displs, elem); err != nil {
			return err
		}
		if dst, err = c.ownPart(op, src, at, dst); err != nil {
			return err
		}
	}
	return c.wrapError(op, coll.Scatterv(&c.coll, dst, src, at, root))
}

// Allgatherv collects src of all ranks in dst of each: counts[i] elements of rank i at displs[i], or one after the
// other if displs is nil. In place as in Allgather. MPI-5.0 §6.7.
func Allgatherv[T Elem](c *Comm, dst []T, counts, displs []int, src []T) error {
	return c.allgatherv(bytesOf(dst), counts, displs, bytesOf(src), sizeOf[T]())
}

func (c *Comm) allgatherv(dst []byte, counts, displs []int, src []byte, elem int) error {
	const op = "Allgatherv"
	if err := c.beginIntracomm(perf.Allgatherv, len(src)); err != nil {
		return err
	}
	defer c.endCollective()
	at, err := c.newLayout(op, dst, counts, displs, elem)
	if err != nil {
		return err
	}
	if src, err = c.ownPart(op, dst, at, src); err != nil {
		return err
	}
	return c.wrapError(op, coll.Allgatherv(&c.coll, dst, at, src))
}

// Alltoallv sends scounts[i] elements of src at sdispls[i] to rank i, and receives rcounts[i] elements from rank i
// into dst at rdispls[i]; nil displacements put the parts one after the other. dst and src may be the same slice,
// and then rcounts and rdispls are for both. MPI-5.0 §6.8.
func Alltoallv[T Elem](c *Comm, dst []T, rcounts, rdispls []int, src []T, scounts, sdispls []int) error {
	return c.alltoallv(perf.Alltoallv, bytesOf(dst), rcounts, rdispls, bytesOf(src), scounts, sdispls, sizeOf[T]())
}

func (c *Comm) alltoallv(as perf.Op, dst []byte, rcounts, rdispls []int, src []byte, scounts, sdispls []int, elem int) error {
	op := as.String()
	if err := c.beginIntracomm(as, len(src)); err != nil {
		return err
	}
	defer c.endCollective()
	if err := c.checkOverlap(op, dst, src); err != nil {
		return err
	}
	to, err := c.newLayout(op, dst, rcounts, rdispls, elem)
	if err != nil {
		return err
	}
	from := to
	if nothing := len(dst) == 0 && len(src) == 0 && scounts == nil; !nothing && !sameStart(dst, src) {
		if from, err = c.newLayout(op, src, scounts, sdispls, elem); err != nil {
			return err
		}
	}
	return c.wrapError(op, coll.Alltoallv(&c.coll, dst, to, src, from))
}
