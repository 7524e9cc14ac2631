package coll
import "os"

// fold combines a part of the data in all slots, in the order of ranks. n is the length of the data.
func (f *Flat) fold(dst []byte, lo, hi, n int, own []byte, op *Operation) {
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

func (f *Flat) own(dst, src []byte, n int) []byte {
	if f.Rank > 0 && inPlace(dst, src) {
		return f.data(f.Rank, n)
	}
	return src
}

// piece is the bytes of whole elements that a slot has room for.
func (f *Flat) piece(op *Operation) int { return f.room - f.room%op.ElemSize }

// Allreduce combines the src of all ranks into dst of each.
func (f *Flat) Allreduce(dst, src []byte, op *Operation) error {
	if f.Size == 1 {
		copy(dst, src)
		return nil
	}
	most := f.piece(op)
	for off := 0; off < len(src); off += most {
		c := min(most, len(src)-off)
		if err := f.allreduce(dst[off:off+c], src[off:off+c], op); err != nil {
			return err
		}
	}
	return nil
}

// allreduce is Allreduce for what a slot has room for.
func (f *Flat) allreduce(dst, src []byte, op *Operation) error {
	if err := f.begin(); err != nil {
		return err
	}
	n := len(src)
	if useNT(n) {
		stream(f.data(f.Rank, n), src)
	} else {
		copy(f.data(f.Rank, n), src)
	}
	switch {
	case n > nobody && (f.Size > 2 || f.Crowded):
		return f.allreduceShared(dst, src, op)
	case f.Crowded:
		if f.last() {
			f.fold(f.data(f.Size, n), 0, n, n, src, op)
			f.open()
		} else if err := f.pass(); err != nil {
			return err
		}
		copy(dst, f.data(f.Size, n))
		return nil
	}
	if err := f.meet(); err != nil {
		return err
	}
	f.fold(dst, 0, n, n, f.own(dst, src, n), op)
	return nil
}

// allreduceShared: each rank reduces one part of the data that are in the slots, puts the result into its slot, of which only
// it reads that part, and takes the other parts from the other slots.
func (f *Flat) allreduceShared(dst, src []byte, op *Operation) error {
	n := len(src)
	if err := f.meet(); err != nil {
		return err
	}
	parts := cut{n / op.ElemSize, op.ElemSize, f.Size}
	own := parts.of(dst, f.Rank)
	f.fold(own, parts.start(f.Rank), parts.start(f.Rank+1), n, f.own(dst, src, n), op)
	if useNT2(n) {
		stream(parts.of(f.data(f.Rank, n), f.Rank), own)
	} else {
		copy(parts.of(f.data(f.Rank, n), f.Rank), own)
	}
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

// Reduce combines the src of all ranks into dst of the root.
func (f *Flat) Reduce(dst, src []byte, op *Operation, root int) error {
	if f.Size == 1 {
		copy(dst, src)
		return nil
	}
	most := f.piece(op)
	for off := 0; off < len(src); off += most {
		c := min(most, len(src)-off)
		if err := f.begin(); err != nil {
			return err
		}
		copy(f.data(f.Rank, c), src[off:off+c])
		if f.Rank != root {
			f.fill()
		} else if err := f.collect(); err != nil {
			return err
		} else {
			f.fold(dst[off:off+c], 0, c, c, f.data(f.Rank, c), op)
		}
		f.end()
	}
	return nil
}

// collect waits until all other slots have been filled.
func (f *Flat) collect() error {
	for r := range f.Size {
		if r != f.Rank {
			if err := f.wait(f.filled(r), f.round); err != nil {
				return err
			}
		}
	}
	return nil
}

var nt = os.Getenv("NT")
func useNT(n int) bool { return (nt == "1" || nt == "2") && n > 4096}
func useNT2(n int) bool { return nt == "2" && n > 4096}
