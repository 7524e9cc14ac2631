package coll

import "github.com/ibrun/ibrun/internal/shm"

// From these lengths on, each rank reduces one part of the data of all and copies the other parts from the others: that saves
// more than the additional barrier costs. Lengths are the sum over all ranks.
const (
	divideFrom               = 16 * kib // instead of each rank reducing all
	divideFromOversubscribed = 64 * kib // instead of the last rank reducing all
)

// MaxSharedElement is the most bytes of an element that is reduced in shared memory, where a slot has room for several.
const MaxSharedElement = 1 * kib

// Allreduce combines the src of all ranks into dst of each, in rank order, or on two levels NUMA node by NUMA node,
// and with the same bits at every rank.
//
// Cost: that of a Barrier and (n-1) * m*g if short; two Barriers per slot and 3 * m*g if long.
func (f *Shm) Allreduce(dst, src []byte, op *Operation) error {
	if f.Size == 1 {
		copy(dst, src)
		return nil
	}
	if f.copiesDirectly(OfAllreduce, len(src)) {
		return f.reduceDirect(dst, src, 0, len(src), op)
	}
	if f.numa != nil && f.usesNUMA(OfAllreduce, len(src), op) {
		return f.allreduceNUMA(dst, src, op)
	}
	most := f.wholeElements(op)
	for off := 0; off < len(src); off += most {
		n := min(most, len(src)-off)
		d, s := dst[off:off+n], src[off:off+n]
		if err := f.beginStep(n); err != nil {
			return err
		}
		f.copier.Copy(f.data(f.Rank, n), s)
		var err error
		switch {
		case f.dividesWork(n):
			err = f.allreduceDivided(d, s, op)
		case f.Oversubscribed:
			err = f.allreduceLast(d, s, op)
		default:
			err = f.allreduceEach(d, s, op)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// wholeElements returns the bytes of whole elements that a slot has room for.
func (f *Shm) wholeElements(op *Operation) int { return f.slotBytes - f.slotBytes%op.ElemSize }

// dividesWork reports whether each rank reduces one part of n bytes.
func (f *Shm) dividesWork(n int) bool {
	if f.Oversubscribed {
		return n > resultBytes || n*f.Size > divideFromOversubscribed
	}
	return f.Size > 2 && n*f.Size > divideFrom
}

// allreduceEach: each rank reduces the data of all.
func (f *Shm) allreduceEach(dst, src []byte, op *Operation) error {
	if err := f.synchronize(); err != nil {
		return err
	}
	f.reduceSlots(dst, 0, len(src), f.operand(dst, src), op)
	return nil
}

// allreduceLast: the last rank reduces the data of all.
func (f *Shm) allreduceLast(dst, src []byte, op *Operation) error {
	result := f.data(f.Size, len(src))
	if len(src) > inlineBytes && !f.result {
		if err := f.allocateResult(); err != nil {
			return err
		}
	}
	missing, err := f.arrive()
	if err == nil && missing > 0 {
		err = f.awaitRelease(missing)
	}
	if err != nil {
		return err
	}
	if missing == 0 {
		f.reduceSlots(result, 0, len(src), src, op)
		f.release()
	}
	copy(dst, result)
	return nil
}

// allocateResult allocates the data of the slots that belong to no rank.
func (f *Shm) allocateResult() error {
	if f.Allocate != nil {
		if err := f.Allocate(f.Mem[f.words:][:resultBytes]); err != nil {
			return err
		}
	}
	f.result = true
	return nil
}

// allreduceDivided: each rank reduces one part of the data of all. It copies the result into that part of its slot, which no
// other rank reads before, and copies the other parts from the other slots.
func (f *Shm) allreduceDivided(dst, src []byte, op *Operation) error {
	if err := f.synchronize(); err != nil {
		return err
	}
	n := len(src)
	parts := partition{n / op.ElemSize, op.ElemSize, f.Size}
	mine := parts.part(dst, f.Rank)
	f.reduceSlots(mine, parts.start(f.Rank), parts.start(f.Rank+1), f.operand(dst, src), op)
	f.copier.Copy(parts.part(f.data(f.Rank, n), f.Rank), mine)
	f.step += f.slots // the next step that uses the same slots
	if err := f.synchronizeAgain(); err != nil {
		return err
	}
	for r := range f.Size {
		if r != f.Rank {
			copy(parts.part(dst, r), parts.part(f.data(r, n), r))
		}
	}
	return nil
}

// operand returns where this rank's own operand is read: src, unless the reduction overwrites it first. Then it is the copy in
// the slot.
func (f *Shm) operand(dst, src []byte) []byte {
	if overwritesOperand(f.Rank, dst, src, 0) {
		return f.data(f.Rank, len(src))
	}
	return src
}

// overwritesOperand reports whether a reduction in the order of the ranks overwrites the operand of a rank before it reads it.
// The operand is as long as dst, and begins at byte first of src. That of rank 0 is read first.
func overwritesOperand(rank int, dst, src []byte, first int) bool {
	return rank > 0 && (inPlace(dst, src[first:]) || inPlace(dst, src) && first < len(dst))
}

// reduceSlots combines the bytes lo to hi of own and of the data in the other slots, in rank order.
func (f *Shm) reduceSlots(dst []byte, lo, hi int, own []byte, op *Operation) {
	n := len(own)
	combineAll(dst, f.Size, op, func(r int) []byte {
		if r == f.Rank {
			return own[lo:hi]
		}
		return f.data(r, n)[lo:hi]
	})
}

// copyAround copies src into a slot, except bytes lo to hi, which no other rank reads. lo and hi may be outside of src.
func copyAround(c *shm.Copier, slot, src []byte, lo, hi int) {
	n := len(src)
	lo, hi = min(max(lo, 0), n), min(max(hi, 0), n)
	c.Copy(slot[:lo], src[:lo])
	c.Copy(slot[hi:], src[hi:])
}

// combineAll combines n operands in their order. dst may be the first one, and overlaps none of the others.
func combineAll(dst []byte, n int, op *Operation, operand func(i int) []byte) {
	switch {
	case len(dst) == 0:
		return
	case n == 1:
		copy(dst, operand(0))
		return
	}
	op.Kernel(dst, operand(0), operand(1))
	for i := 2; i < n; i++ {
		op.Kernel(dst, dst, operand(i))
	}
}

// Reduce combines the src of all ranks into dst of the root, in rank order, or on two levels NUMA node by NUMA node. The other
// ranks wait for it only if src is longer than all their slots.
//
// Cost: at the root, one cache line from one core to another, and (n-1) * m*g.
func (f *Shm) Reduce(dst, src []byte, op *Operation, root int) error {
	if f.Size == 1 {
		copy(dst, src)
		return nil
	}
	switch direct := f.copiesDirectly(OfReduce, len(src)); {
	case direct && f.Rank == root:
		return f.reduceDirect(dst, src, 0, len(src), op)
	case direct:
		return f.reduceDirect(nil, src, 0, 0, op)
	case f.numa != nil && f.usesNUMA(OfReduce, len(src), op):
		return f.reduceNUMA(dst, src, op, root)
	case f.Rank != root:
		return f.publishBuffer(src, f.wholeElements(op))
	}
	most := f.wholeElements(op)
	for off := 0; off < len(src); off += most {
		n := min(most, len(src)-off)
		d, s := dst[off:off+n], src[off:off+n]
		room := 0
		if overwritesOperand(f.Rank, d, s, 0) {
			room = n
		}
		if err := f.beginStep(room); err != nil {
			return err
		}
		own := f.operand(d, s)
		if !inPlace(own, s) {
			f.copier.Copy(own, s)
		}
		f.publish() // for ranks with other calls
		if err := f.awaitAll(); err != nil {
			return err
		}
		f.reduceSlots(d, 0, n, own, op)
		f.endStep()
	}
	return nil
}

// publishBuffer copies src into this rank's slots, most bytes per step.
func (f *Shm) publishBuffer(src []byte, most int) error {
	for off := 0; off < len(src); off += most {
		part := src[off:min(off+most, len(src))]
		if err := f.beginStep(len(part)); err != nil {
			return err
		}
		f.copier.Copy(f.data(f.Rank, len(part)), part)
		f.publish()
		f.endStep()
	}
	return nil
}

// ReduceScatter combines the src of all ranks, in rank order. Rank i receives its counts[i] elements of the result in dst. In
// place, the result is at the start of the buffer.
//
// Cost: that of a Barrier, a copy of the blocks of the other ranks, and m*g.
func (f *Shm) ReduceScatter(dst, src []byte, counts []int, op *Operation) error {
	first, end := blockBounds(counts, f.Rank, op.ElemSize)
	return f.reduceScatter(dst[:end-first], src, first, op)
}

// reduceScatter is ReduceScatter of parts that do not overlap. That of this rank begins at byte first.
func (f *Shm) reduceScatter(dst, src []byte, first int, op *Operation) error {
	if f.Size == 1 {
		copy(dst, src)
		return nil
	}
	end, most := first+len(dst), f.wholeElements(op)
	overwrites := overwritesOperand(f.Rank, dst, src, first)
	if f.copiesDirectly(OfReduceScatter, len(src)) {
		return f.reduceDirect(dst, src, first, end, op)
	}
	for off := 0; off < len(src); off += most {
		n := min(most, len(src)-off)
		if err := f.beginStep(n); err != nil {
			return err
		}
		own, slot := src[off:off+n], f.data(f.Rank, n)
		if overwrites {
			f.copier.Copy(slot, own)
			own = slot
		} else {
			copyAround(&f.copier, slot, own, first-off, end-off)
		}
		if err := f.synchronize(); err != nil {
			return err
		}
		if lo, hi := max(first, off), min(end, off+n); lo < hi {
			f.reduceSlots(dst[lo-first:hi-first], lo-off, hi-off, own, op)
		}
	}
	return nil
}
