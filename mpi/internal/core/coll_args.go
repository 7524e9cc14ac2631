package core

import (
	"errors"
	"fmt"
	"math"

	"github.com/ibrun/ibrun/mpi/internal/coll"
)

// ownBlock checks the length of a rank's own block against the whole buffer, and returns the block. For an in-place
// call it returns the beginning of the whole, as package coll expects.
func (c *Comm) ownBlock(op string, whole, block []byte, elem int) ([]byte, error) {
	n := len(c.peers)
	if sameStart(whole, block) && len(whole) == len(block) && n > 1 {
		if err := c.checkDivisible(op, whole, elem); err != nil {
			return nil, err
		}
		return whole[:len(whole)/n], nil
	}
	if len(whole) != n*len(block) {
		return nil, c.newError(op, ErrCount, fmt.Errorf(
			"the buffer for all ranks has %d elements, but the other buffer has %d on each of %d ranks (%d in total)",
			len(whole)/elem, len(block)/elem, n, n*len(block)/elem))
	}
	if at := int(c.rank) * len(block); sameStart(whole[at:], block) {
		return whole[:len(block)], nil
	}
	return block, c.checkOverlap(op, whole, block)
}

// gatherBlocks checks the buffers of a Gather or Scatter: whole has the blocks of all ranks at the root, and is not used at
// others. It returns the whole and the rank's own block, as ownBlock does.
func (c *Comm) gatherBlocks(op string, whole, block []byte, k Elements, root int) (all, own []byte, err error) {
	err = c.checkRoot(op, root)
	if root != c.Rank() {
		return nil, block, err
	}
	if err == nil {
		block, err = c.ownBlock(op, whole, block, k.Size())
	}
	return whole, block, err
}

// partsAtRoot is gatherBlocks for blocks of different lengths. The layout is empty at ranks other than the root, and after an
// error.
func (c *Comm) partsAtRoot(op string, whole []byte, parts coll.Layout, block []byte, k Elements, root int) (
	at coll.Layout, own []byte, err error,
) {
	if err = c.checkRoot(op, root); err != nil || root != c.Rank() {
		return at, block, err
	}
	if at, own, err = c.ownPartAtRoot(op, whole, parts, block, k.Size()); err != nil {
		return coll.Layout{}, block, err
	}
	return at, own, nil
}

// reduceBuffers checks the buffers of a Reduce and sets its operation. It returns dst at the root, and nil at other ranks.
func (c *Comm) reduceBuffers(x *coll.Operation, op string, dst, src []byte, k Elements, o Op, root int) ([]byte, error) {
	err := c.checkRoot(op, root)
	if root != c.Rank() {
		dst = nil
	} else if err == nil {
		err = c.checkSameSize(op, dst, src)
	}
	if err == nil {
		err = c.operationOf(x, op, k, o)
	}
	return dst, err
}

// sameBuffers checks the buffers of a reduction with results at all ranks, and sets its operation.
func (c *Comm) sameBuffers(x *coll.Operation, op string, dst, src []byte, k Elements, o Op) error {
	if err := c.checkSameSize(op, dst, src); err != nil {
		return err
	}
	return c.operationOf(x, op, k, o)
}

// alltoallBuffers checks the buffers of an Alltoall.
func (c *Comm) alltoallBuffers(op string, dst, src []byte, k Elements) error {
	if err := c.checkSameSize(op, dst, src); err != nil {
		return err
	}
	return c.checkDivisible(op, src, k.Size())
}

// ownPart checks the length of a rank's own block against its part of the whole, and returns the block. In an
// in-place call the block is the whole or this part of it; ownPart then returns the beginning of the whole, as
// package coll expects.
func (c *Comm) ownPart(op string, whole []byte, at coll.Layout, block []byte) ([]byte, error) {
	count, from := at.Counts[c.rank]*at.Elem, at.Displs[c.rank]*at.Elem
	if sameStart(whole, block) && len(whole) == len(block) {
		return whole[:count], nil
	}
	if len(block) != count {
		return nil, c.newError(op, ErrCount, fmt.Errorf("the block of rank %d has %d elements, but its count is %d",
			c.rank, len(block)/at.Elem, at.Counts[c.rank]))
	}
	if sameStart(whole[from:], block) {
		return whole[:count], nil
	}
	return block, c.checkOverlap(op, whole, block)
}

// ownPartAtRoot checks the positions of the blocks in the root's buffer, and returns them with the root's own block.
func (c *Comm) ownPartAtRoot(op string, whole []byte, parts coll.Layout, block []byte, elem int) (coll.Layout, []byte, error) {
	at, err := c.newLayout(op, whole, parts, elem)
	if err == nil {
		block, err = c.ownPart(op, whole, at, block)
	}
	return at, block, err
}

// checkDivisible returns an error for a buffer that does not have the same number of elements for each rank.
func (c *Comm) checkDivisible(op string, b []byte, elem int) error {
	if len(b)%(elem*len(c.peers)) != 0 {
		return c.newError(op, ErrCount,
			fmt.Errorf("%d elements cannot be divided evenly among %d ranks", len(b)/elem, len(c.peers)))
	}
	return nil
}

// alltoallLayouts checks the positions of the blocks that an Alltoallv receives and sends, and returns them.
func (c *Comm) alltoallLayouts(op string, dst []byte, rparts coll.Layout, src []byte, sparts coll.Layout, elem int) (
	to, from coll.Layout, err error,
) {
	if err = c.checkOverlap(op, dst, src); err != nil {
		return to, from, err
	}
	if to, err = c.newLayout(op, dst, rparts, elem); err != nil {
		return to, from, err
	}
	if nothing := len(dst) == 0 && len(src) == 0 && sparts.Counts == nil; nothing || sameStart(dst, src) {
		return to, to, nil
	}
	from, err = c.newLayout(op, src, sparts, elem)
	return to, from, err
}

// newLayout checks the positions of all ranks' blocks in a buffer and returns them. Without displacements the blocks
// follow each other.
func (c *Comm) newLayout(op string, b []byte, parts coll.Layout, elem int) (coll.Layout, error) {
	if _, err := c.sumCounts(op, parts.Counts); err != nil {
		return coll.Layout{}, err
	}
	return c.placed(op, b, parts, elem)
}

// placed is newLayout for counts that have been checked.
func (c *Comm) placed(op string, b []byte, parts coll.Layout, elem int) (coll.Layout, error) {
	counts, displs := parts.Counts, parts.Displs
	if displs == nil {
		displs = make([]int, len(counts))
		for i := 1; i < len(counts); i++ {
			displs[i] = displs[i-1] + counts[i-1]
		}
	}
	if len(displs) != len(counts) {
		return coll.Layout{}, c.newError(op, ErrCount,
			fmt.Errorf("got %d displacements; want one for each of %d blocks", len(displs), len(counts)))
	}
	n := len(b) / elem
	for i := range counts {
		if displs[i] < 0 || displs[i] > n || counts[i] > n-displs[i] {
			return coll.Layout{}, c.newError(op, ErrCount,
				fmt.Errorf("block %d (%d elements at %d) exceeds the buffer of %d elements", i, counts[i], displs[i], n))
		}
	}
	return coll.Layout{Counts: counts, Displs: displs, Elem: elem}, nil
}

// sumCounts returns the sum of the counts of all ranks.
func (c *Comm) sumCounts(op string, counts []int) (total int, err error) {
	return c.sumOf(op, counts, len(c.peers), "ranks")
}

// sumOf returns the sum of the counts of n blocks, one for each of what.
func (c *Comm) sumOf(op string, counts []int, n int, what string) (total int, err error) {
	if len(counts) != n {
		return 0, c.newError(op, ErrCount, fmt.Errorf("got %d counts; want one for each of %d %s", len(counts), n, what))
	}
	for i, n := range counts {
		if n < 0 || n > math.MaxInt-total {
			return 0, c.newError(op, ErrCount, fmt.Errorf("count %d of block %d is negative, or the sum is too large", n, i))
		}
		total += n
	}
	return total, nil
}

// checkSameSize checks the buffers of a reduction: they must have the same length, and be the same memory or not
// overlap.
func (c *Comm) checkSameSize(op string, dst, src []byte) error {
	if len(dst) != len(src) {
		return c.newError(op, ErrCount, fmt.Errorf("dst has %d bytes, but src has %d", len(dst), len(src)))
	}
	return c.checkOverlap(op, dst, src)
}

// checkRoot returns an error if root is not a rank.
func (c *Comm) checkRoot(op string, root int) error {
	if uint(root) >= uint(len(c.peers)) {
		return c.newError(op, ErrRoot, rankError(root, len(c.peers)))
	}
	return nil
}

var errPartialOverlap = errors.New("dst and src overlap partially")

// checkOverlap returns an error for buffers that share memory, unless they have the same start and the same length.
func (c *Comm) checkOverlap(op string, dst, src []byte) error {
	if overlap(dst, src) && !(sameStart(dst, src) && len(dst) == len(src)) {
		return c.newError(op, ErrBuffer, errPartialOverlap)
	}
	return nil
}
