package mpi

import (
	"errors"
	"fmt"
	"math"

	"github.com/ibrun/ibrun/mpi/internal/coll"
)

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

// checkDivisible refuses a buffer that does not hold the same number of elements for each rank.
func (c *Comm) checkDivisible(op string, b []byte, elem int) error {
	if len(b)%(elem*len(c.peers)) != 0 {
		return c.newError(op, ErrCount, fmt.Errorf("%d elements for %d ranks", len(b)/elem, len(c.peers)))
	}
	return nil
}

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

// sumCounts adds the counts of all ranks.
func (c *Comm) sumCounts(op string, counts []int) (total int, err error) {
	if len(counts) != len(c.peers) {
		return 0, c.newError(op, ErrCount, fmt.Errorf("%d counts for %d ranks", len(counts), len(c.peers)))
	}
	for i, n := range counts {
		if n < 0 || n > math.MaxInt-total {
			return 0, c.newError(op, ErrCount, fmt.Errorf("count %d of rank %d", n, i))
		}
		total += n
	}
	return total, nil
}

// checkSameSize checks the buffers of a reduction: of one length, and the same or apart.
func (c *Comm) checkSameSize(op string, dst, src []byte) error {
	if len(dst) != len(src) {
		return c.newError(op, ErrCount, fmt.Errorf("dst has %d bytes and src %d", len(dst), len(src)))
	}
	return c.checkOverlap(op, dst, src)
}

// checkRoot checks a root.
func (c *Comm) checkRoot(op string, root int) error {
	if uint(root) >= uint(len(c.peers)) {
		return c.newError(op, ErrRoot, fmt.Errorf("root %d of %d", root, len(c.peers)))
	}
	return nil
}

// checkOverlap refuses buffers that share memory without beginning at the same element with the same length.
func (c *Comm) checkOverlap(op string, dst, src []byte) error {
	if overlap(dst, src) && !(sameStart(dst, src) && len(dst) == len(src)) {
		return c.newError(op, ErrBuffer, errors.New("dst and src overlap in part"))
	}
	return nil
}
