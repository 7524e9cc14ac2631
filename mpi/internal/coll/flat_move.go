package coll

// Bcast gives every rank the root's buf. The root does not wait for the others, but where buf is longer than all its slots.
func (f *Flat) Bcast(buf []byte, root int) error {
	if f.Size == 1 {
		return nil
	}
	for off := 0; off < len(buf); off += f.room {
		part := buf[off:min(off+f.room, len(buf))]
		if f.Rank == root {
			if err := f.begin(); err != nil {
				return err
			}
			copy(f.data(root, len(part)), part)
			f.fill()
		} else {
			f.round++
			if err := f.wait(f.filled(root), f.round); err != nil {
				return err
			}
			copy(part, f.data(root, len(part)))
		}
		f.end()
	}
	return nil
}

// Gather collects the src of all ranks in dst of the root, in the order of ranks. Only the root waits, but for blocks longer
// than all slots together.
func (f *Flat) Gather(dst, src []byte, root int) error {
	if f.Rank != root {
		return f.give(src)
	}
	n := len(dst) / f.Size
	if !inPlace(dst, src) {
		copy(nth(dst, root, n), src)
	}
	for off := 0; off < n; off += f.room {
		c := min(f.room, n-off)
		f.round++
		for r := range f.Size {
			if r == root {
				continue
			}
			if err := f.wait(f.filled(r), f.round); err != nil {
				return err
			}
			copy(nth(dst, r, n)[off:], f.data(r, c))
		}
		f.end()
	}
	return nil
}

// give puts a block into this rank's slot, round by round.
func (f *Flat) give(src []byte) error {
	for off := 0; off < len(src); off += f.room {
		if err := f.begin(); err != nil {
			return err
		}
		part := src[off:min(off+f.room, len(src))]
		copy(f.data(f.Rank, len(part)), part)
		f.fill()
		f.end()
	}
	return nil
}

// Scatter gives each rank its block of the root's src. The root does not wait for the others, but where src is longer than
// two slots.
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
			if err := f.wait(f.filled(root), f.round); err != nil {
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
		copy(nth(out, r, c), nth(src, r, n)[off:])
	}
}

// Allgather collects the src of all ranks in dst of each, in the order of ranks.
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
		copy(f.data(f.Rank, c), own[off:])
		if err := f.meet(); err != nil {
			return err
		}
		for r := range f.Size {
			if r != f.Rank {
				copy(nth(dst, r, n)[off:], f.data(r, c))
			}
		}
	}
	return nil
}

// Alltoall sends block i of src to rank i, whose block of this rank's number it becomes in dst.
func (f *Flat) Alltoall(dst, src []byte) error {
	n, most := len(dst)/f.Size, f.room/f.Size
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
