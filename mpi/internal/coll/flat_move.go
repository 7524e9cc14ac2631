package coll

// Bcast gives every rank the root's buf. The root does not wait for the others, but where buf is longer than all
// its slots.
//
// Cost: one cache line from one core to another, and two copies.
func (f *Flat) Bcast(buf []byte, root int) error {
	if f.Size == 1 {
		return nil
	}
	if f.Rank == root {
		return f.give(buf, f.room)
	}
	for off := 0; off < len(buf); off += f.room {
		f.round++
		if err := f.await(root); err != nil {
			return err
		}
		part := buf[off:min(off+f.room, len(buf))]
		copy(part, f.data(root, len(part)))
		f.end()
	}
	return nil
}

// Gather collects the src of all ranks in dst of the root, in the order of ranks. The other ranks do not wait for
// it, but where src is longer than all their slots.
//
// Cost: one cache line from one core to another, and (n-1) copies at the root.
func (f *Flat) Gather(dst, src []byte, root int) error {
	if f.Rank != root {
		return f.give(src, f.room)
	}
	n := len(dst) / f.Size
	if !inPlace(dst, src) {
		copy(nth(dst, root, n), src)
	}
	if f.Size == 1 {
		return nil
	}
	for off := 0; off < n; off += f.room {
		f.round++
		if err := f.awaitAll(); err != nil {
			return err
		}
		f.take(dst, n, off, min(f.room, n-off))
		f.end()
	}
	return nil
}

// take copies c bytes from each other rank's slot to offset off of that rank's block of n bytes.
func (f *Flat) take(dst []byte, n, off, c int) {
	for r := range f.Size {
		if r != f.Rank {
			copy(nth(dst, r, n)[off:], f.data(r, c))
		}
	}
}

// Scatter gives each rank its block of the root's src. The root does not wait for the others, but where src is
// longer than all its slots.
//
// Cost: one cache line from one core to another, and n copies at the root.
func (f *Flat) Scatter(dst, src []byte, root int) error {
	n, most := len(dst), f.room/f.Size
	if f.Rank == root {
		n = len(src) / f.Size
		if !inPlace(dst, src) {
			copy(dst, nth(src, root, n))
		}
	}
	if f.Size == 1 {
		return nil
	}
	for off := 0; off < n; off += most {
		c := min(most, n-off)
		if f.Rank == root {
			if err := f.begin(); err != nil {
				return err
			}
			f.lay(src, n, off, c)
			f.fill()
		} else {
			f.round++
			if err := f.await(root); err != nil {
				return err
			}
			copy(dst[off:], nth(f.data(root, f.Size*c), f.Rank, c))
		}
		f.end()
	}
	return nil
}

// lay puts c bytes, from off on, of each of the blocks of n bytes into this rank's slot.
func (f *Flat) lay(src []byte, n, off, c int) {
	out := f.data(f.Rank, f.Size*c)
	for r := range f.Size {
		f.put(nth(out, r, c), nth(src, r, n)[off:off+c])
	}
}

// Allgather collects the src of all ranks in dst of each, in the order of ranks.
//
// Cost: that of a Barrier, and n copies.
func (f *Flat) Allgather(dst, src []byte) error {
	n := len(dst) / f.Size
	own := nth(dst, f.Rank, n)
	if !inPlace(dst, src) {
		copy(own, src)
	}
	if f.Size == 1 {
		return nil
	}
	for off := 0; off < n; off += f.room {
		if err := f.begin(); err != nil {
			return err
		}
		c := min(f.room, n-off)
		f.put(f.data(f.Rank, c), own[off:off+c])
		if err := f.meet(); err != nil {
			return err
		}
		f.take(dst, n, off, c)
	}
	return nil
}

// Alltoall sends block i of src to rank i, whose block of this rank's number it becomes in dst.
//
// Cost: that of a Barrier, and 2 * n copies.
func (f *Flat) Alltoall(dst, src []byte) error {
	n, most := len(dst)/f.Size, f.room/f.Size
	if f.Size == 1 {
		copy(dst, src)
		return nil
	}
	for off := 0; off < n; off += most {
		if err := f.begin(); err != nil {
			return err
		}
		c := min(most, n-off)
		f.lay(src, n, off, c)
		if err := f.meet(); err != nil {
			return err
		}
		for r := range f.Size {
			copy(nth(dst, r, n)[off:], nth(f.data(r, f.Size*c), f.Rank, c))
		}
	}
	return nil
}
