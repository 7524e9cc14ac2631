package core

import (
	"errors"
	"math"

	"github.com/ibrun/ibrun/mpi/internal/coll"
)

// arguments checks the arguments of the collectives of a communicator, and finds where the blocks
// of the ranks are. It knows neither the call nor the communicator, so its errors are faults. It
// never changes.
type arguments struct {
	rank, size int // size is that of the remote group of an intercommunicator
	local      int // number of ranks of the local group
	topology   *Topology
}

// ownBlock checks the length of a rank's own block against the whole buffer, and returns the block.
// For an in-place call it returns the beginning of the whole, as package coll expects.
func (a *arguments) ownBlock(whole, block []byte, elem int) ([]byte, error) {
	n := a.size
	// The caller has passed one slice twice: the call is in place (MPI_IN_PLACE in C).
	if sameStart(whole, block) && len(whole) == len(block) && n > 1 {
		if err := a.checkDivisible(whole, elem); err != nil {
			return nil, err
		}
		return whole[:len(whole)/n], nil
	}
	if len(whole) != n*len(block) {
		return nil, faultf(ErrCount,
			"the buffer for all ranks has %d elements, but the other buffer has %d on each of %d ranks (%d in total)",
			len(whole)/elem, len(block)/elem, n, n*len(block)/elem)
	}
	// The block is already where it belongs in the whole, which is in place too.
	if at := a.rank * len(block); sameStart(whole[at:], block) {
		return whole[:len(block)], nil
	}
	return block, checkOverlap(whole, block)
}

// gatherBlocks checks the buffers of a Gather or Scatter: whole has the blocks of all ranks at the
// root, and is not used at others. It returns the whole and the rank's own block, as ownBlock does.
func (a *arguments) gatherBlocks(whole, block []byte, k Elements, root int) (all, own []byte, err error) {
	// All ranks use the root. The whole is significant at the root only (MPI-5.0 §6.5, §6.6), so
	// other ranks may pass anything there.
	err = a.checkRoot(root)
	if root != a.rank {
		return nil, block, err
	}
	if err == nil {
		block, err = a.ownBlock(whole, block, k.Size())
	}
	return whole, block, err
}

// partsAtRoot is gatherBlocks for blocks of different lengths. The layout is empty at ranks other
// than the root, and after an error.
func (a *arguments) partsAtRoot(whole []byte, parts coll.Layout, block []byte, k Elements, root int) (
	at coll.Layout, own []byte, err error,
) {
	if err = a.checkRoot(root); err != nil || root != a.rank {
		return at, block, err
	}
	if at, own, err = a.ownPartAtRoot(whole, parts, block, k.Size()); err != nil {
		return coll.Layout{}, block, err
	}
	return at, own, nil
}

// reduceBuffers checks the buffers of a Reduce and sets its operation. It returns dst at the root,
// and nil at other ranks.
func (a *arguments) reduceBuffers(x *coll.Operation, dst, src []byte, k Elements, o Op, root int) ([]byte, error) {
	err := a.checkRoot(root)
	if root != a.rank {
		dst = nil
	} else if err == nil {
		err = checkSameSize(dst, src)
	}
	if err == nil {
		err = setOperation(x, k, o)
	}
	return dst, err
}

// sameBuffers checks the buffers of a reduction with results at all ranks, and sets its operation.
func (a *arguments) sameBuffers(x *coll.Operation, dst, src []byte, k Elements, o Op) error {
	if err := checkSameSize(dst, src); err != nil {
		return err
	}
	return setOperation(x, k, o)
}

// alltoallBuffers checks the buffers of an Alltoall.
func (a *arguments) alltoallBuffers(dst, src []byte, k Elements) error {
	if err := checkSameSize(dst, src); err != nil {
		return err
	}
	return a.checkDivisible(src, k.Size())
}

// ownPart checks the length of a rank's own block against its part of the whole, and returns the
// block. In an in-place call the block is the whole or this part of it; ownPart then returns the
// beginning of the whole, as package coll expects.
func (a *arguments) ownPart(whole []byte, at coll.Layout, block []byte) ([]byte, error) {
	count, from := at.Counts[a.rank]*at.Elem, at.Displs[a.rank]*at.Elem
	if sameStart(whole, block) && len(whole) == len(block) {
		return whole[:count], nil
	}
	if len(block) != count {
		return nil, faultf(ErrCount, "the block of rank %d has %d elements, but its count is %d",
			a.rank, len(block)/at.Elem, at.Counts[a.rank])
	}
	if sameStart(whole[from:], block) {
		return whole[:count], nil
	}
	return block, checkOverlap(whole, block)
}

// ownPartAtRoot checks the positions of the blocks in the root's buffer, and returns them with the
// root's own block.
func (a *arguments) ownPartAtRoot(whole []byte, parts coll.Layout, block []byte, elem int) (coll.Layout, []byte, error) {
	at, err := a.newLayout(whole, parts, elem)
	if err == nil {
		block, err = a.ownPart(whole, at, block)
	}
	return at, block, err
}

// checkDivisible returns an error for a buffer that does not have the same number of elements for
// each rank.
func (a *arguments) checkDivisible(b []byte, elem int) error {
	if len(b)%(elem*a.size) != 0 {
		return faultf(ErrCount, "%d elements cannot be divided evenly among %d ranks", len(b)/elem, a.size)
	}
	return nil
}

// alltoallLayouts checks the positions of the blocks that an Alltoallv receives and sends, and
// returns them.
func (a *arguments) alltoallLayouts(dst []byte, rparts coll.Layout, src []byte, sparts coll.Layout, elem int) (
	to, from coll.Layout, err error,
) {
	if err = checkOverlap(dst, src); err != nil {
		return to, from, err
	}
	if to, err = a.newLayout(dst, rparts, elem); err != nil {
		return to, from, err
	}
	// A call in place passes no counts for src. Without data the slices are empty, and an empty
	// slice has no start by which a call in place could be recognized.
	if nothing := len(dst) == 0 && len(src) == 0 && sparts.Counts == nil; nothing || sameStart(dst, src) {
		return to, to, nil
	}
	from, err = a.newLayout(src, sparts, elem)
	return to, from, err
}

// newLayout checks the positions of all ranks' blocks in a buffer and returns them. Without
// displacements the blocks follow each other.
func (a *arguments) newLayout(b []byte, parts coll.Layout, elem int) (coll.Layout, error) {
	return listedBlocks(b, parts, a.size, elem, "ranks")
}

// listedBlocks is newLayout for n blocks, one for each of what.
func listedBlocks(b []byte, parts coll.Layout, n, elem int, what string) (coll.Layout, error) {
	if _, err := sumOf(parts.Counts, n, what); err != nil {
		return coll.Layout{}, err
	}
	return placed(b, parts, elem)
}

// placed is newLayout for counts that have been checked.
func placed(b []byte, parts coll.Layout, elem int) (coll.Layout, error) {
	counts, displs := parts.Counts, parts.Displs
	if displs == nil {
		displs = make([]int, len(counts))
		for i := 1; i < len(counts); i++ {
			displs[i] = displs[i-1] + counts[i-1]
		}
	}
	if len(displs) != len(counts) {
		return coll.Layout{}, faultf(ErrCount, "got %d displacements; want one for each of %d blocks", len(displs), len(counts))
	}
	// A count is compared with what is left behind the displacement. Their sum could overflow.
	n := len(b) / elem
	for i := range counts {
		if displs[i] < 0 || displs[i] > n || counts[i] > n-displs[i] {
			return coll.Layout{}, faultf(ErrCount, "block %d (%d elements at %d) exceeds the buffer of %d elements",
				i, counts[i], displs[i], n)
		}
	}
	return coll.Layout{Counts: counts, Displs: displs, Elem: elem}, nil
}

// sumOf returns the sum of the counts of n blocks, one for each of what.
func sumOf(counts []int, n int, what string) (total int, err error) {
	if len(counts) != n {
		return 0, faultf(ErrCount, "got %d counts; want one for each of %d %s", len(counts), n, what)
	}
	for i, n := range counts {
		if n < 0 || n > math.MaxInt-total {
			return 0, faultf(ErrCount, "count %d of block %d is negative, or the sum is too large", n, i)
		}
		total += n
	}
	return total, nil
}

// checkSameSize checks the buffers of a reduction: they must have the same length, and be the same
// memory or not overlap.
func checkSameSize(dst, src []byte) error {
	if len(dst) != len(src) {
		return faultf(ErrCount, "dst has %d bytes, but src has %d", len(dst), len(src))
	}
	return checkOverlap(dst, src)
}

// checkRoot returns an error if root is not a rank.
func (a *arguments) checkRoot(root int) error {
	// A negative root is out of range as well: as an unsigned number it is too large.
	if uint(root) >= uint(a.size) {
		return WithClass(ErrRoot, rankError(root, a.size))
	}
	return nil
}

var errPartialOverlap = errors.New("dst and src overlap partially")

// checkOverlap returns an error for buffers that share memory, unless they have the same start and
// the same length.
func checkOverlap(dst, src []byte) error {
	if overlap(dst, src) && !(sameStart(dst, src) && len(dst) == len(src)) {
		return WithClass(ErrBuffer, errPartialOverlap)
	}
	return nil
}
