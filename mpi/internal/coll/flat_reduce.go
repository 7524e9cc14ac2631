package coll

// Lengths from which each rank reduces one part of the data of all, and takes the other parts from the others, are
// such that this saves more than it costs for all to wait for all once more. They are of all ranks together.
const (
	shareFrom        = 16 * kib // where otherwise each rank reduces all
	shareFromCrowded = 64 * kib // where otherwise the last one does
)

// Allreduce combines the src of all ranks into dst of each, in the order of ranks and with the same bits everywhere.
//
// Cost: short, that of a Barrier and (n-1) * m*g; long, two Barriers per slot and 3 * m*g.
func (f *Flat) Allreduce(dst, src []byte, op *Operation) error {
	if f.Size == 1 {
		copy(dst, src)
		return nil
	}
	most := f.piece(op)
	for off := 0; off < len(src); off += most {
		n := min(most, len(src)-off)
		d, s := dst[off:off+n], src[off:off+n]
		if err := f.begin(); err != nil {
			return err
		}
		f.put(f.data(f.Rank, n), s)
		var err error
		switch {
		case f.shares(n):
			err = f.allreduceShared(d, s, op)
		case f.Crowded:
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

// piece is the bytes of whole elements that a slot has room for.
func (f *Flat) piece(op *Operation) int { return f.room - f.room%op.ElemSize }

func (f *Flat) shares(n int) bool {
	if f.Crowded {
		return n > resultRoom || n*f.Size > shareFromCrowded
	}
	return f.Size > 2 && n*f.Size > shareFrom
}

// allreduceEach: each rank reduces the data of all.
func (f *Flat) allreduceEach(dst, src []byte, op *Operation) error {
	if err := f.meet(); err != nil {
		return err
	}
	f.fold(dst, 0, len(src), f.own(dst, src), op)
	return nil
}

// allreduceLast: the last rank reduces the data of all.
func (f *Flat) allreduceLast(dst, src []byte, op *Operation) error {
	result := f.data(f.Size, len(src))
	if missing := f.arrive(); missing > 0 {
		if err := f.pass(missing); err != nil {
			return err
		}
	} else {
		f.fold(result, 0, len(src), src, op)
		f.open()
	}
	copy(dst, result)
	return nil
}

// allreduceShared: each rank reduces one part of the data of all, puts the result into its slot, of which only it
// reads that part, and takes the other parts from the other slots.
func (f *Flat) allreduceShared(dst, src []byte, op *Operation) error {
	if err := f.meet(); err != nil {
		return err
	}
	n := len(src)
	parts := cut{n / op.ElemSize, op.ElemSize, f.Size}
	mine := parts.of(dst, f.Rank)
	f.fold(mine, parts.start(f.Rank), parts.start(f.Rank+1), f.own(dst, src), op)
	f.put(parts.of(f.data(f.Rank, n), f.Rank), mine)
	f.round += f.depth // the next round that has the same slots
	if err := f.meet(); err != nil {
		return err
	}
	for r := range f.Size {
		if r != f.Rank {
			copy(parts.of(dst, r), parts.of(f.data(r, n), r))
		}
	}
	return nil
}

// own is where this rank's own operand is read: src, unless it will have been overwritten by then.
func (f *Flat) own(dst, src []byte) []byte {
	if f.Rank > 0 && inPlace(dst, src) {
		return f.data(f.Rank, len(src))
	}
	return src
}

// fold combines the bytes lo to hi of own and of what is in the other slots, in the order of ranks.
func (f *Flat) fold(dst []byte, lo, hi int, own []byte, op *Operation) {
	n := len(own)
	part := func(r int) []byte {
		if r == f.Rank {
			return own[lo:hi]
		}
		return f.data(r, n)[lo:hi]
	}
	op.Kernel(dst, part(0), part(1))
	for r := 2; r < f.Size; r++ {
		op.Kernel(dst, dst, part(r))
	}
}

// Reduce combines the src of all ranks into dst of the root, in the order of ranks. The other ranks do not wait for
// it, but where src is longer than all their slots.
//
// Cost: at the root, one cache line from one core to another, and (n-1) * m*g.
func (f *Flat) Reduce(dst, src []byte, op *Operation, root int) error {
	if f.Rank != root {
		return f.give(src, f.piece(op))
	}
	if f.Size == 1 {
		copy(dst, src)
		return nil
	}
	most := f.piece(op)
	for off := 0; off < len(src); off += most {
		n := min(most, len(src)-off)
		d, s := dst[off:off+n], src[off:off+n]
		if err := f.begin(); err != nil {
			return err
		}
		own := f.own(d, s)
		if !inPlace(own, s) {
			f.put(own, s)
		}
		if err := f.awaitAll(); err != nil {
			return err
		}
		f.fold(d, 0, n, own, op)
		f.end()
	}
	return nil
}

// give puts a block into this rank's slots, some bytes per round.
func (f *Flat) give(src []byte, most int) error {
	for off := 0; off < len(src); off += most {
		if err := f.begin(); err != nil {
			return err
		}
		part := src[off:min(off+most, len(src))]
		f.put(f.data(f.Rank, len(part)), part)
		f.fill()
		f.end()
	}
	return nil
}
