package coll

// Bcast copies the root's buf to every rank. The root waits for the others only if buf is longer than all its slots.
//
// Cost: one cache line from one core to another, and two copies.
func (f *Shm) Bcast(buf []byte, root int) error {
	if f.Size == 1 {
		return nil
	}
	if f.copiesDirectly(OfBcast, len(buf)) {
		return f.bcastDirect(buf, root)
	}
	if f.Rank == root {
		return f.publishBuffer(buf, f.slotBytes)
	}
	for off := 0; off < len(buf); off += f.slotBytes {
		f.step++
		if err := f.awaitRank(root); err != nil {
			return err
		}
		part := buf[off:min(off+f.slotBytes, len(buf))]
		copy(part, f.data(root, len(part)))
		f.endStep()
	}
	return nil
}

// Gather collects the src of all ranks in dst of the root, in rank order. The other ranks wait for
// it only if src is longer than all their slots.
//
// Cost: one cache line from one core to another, and (n-1) copies at the root.
func (f *Shm) Gather(dst, src []byte, root int) error {
	n := len(src)
	if f.Rank == root {
		n = len(dst) / f.Size
	}
	if f.Size > 1 && f.copiesDirectly(OfGather, n) {
		return f.gatherDirect(dst, src, root)
	}
	if f.Rank != root {
		return f.publishBuffer(src, f.slotBytes)
	}
	if !inPlace(dst, src) {
		copy(blockAt(dst, root, n), src)
	}
	if f.Size == 1 {
		return nil
	}
	for off := 0; off < n; off += f.slotBytes {
		f.step++
		if err := f.awaitAll(); err != nil {
			return err
		}
		f.copyFromAll(dst, n, off, min(f.slotBytes, n-off))
		f.endStep()
	}
	return nil
}

// copyFromAll copies c bytes from each other rank's slot to offset off of that rank's block of n bytes.
func (f *Shm) copyFromAll(dst []byte, n, off, c int) {
	for r := range f.Size {
		if r != f.Rank {
			copy(blockAt(dst, r, n)[off:], f.data(r, c))
		}
	}
}

// Scatter copies to each rank its block of the root's src. The root waits for the others only if src is longer than all its
// slots.
//
// Cost: one cache line from one core to another, and n copies at the root.
func (f *Shm) Scatter(dst, src []byte, root int) error {
	if f.copiesDirectly(OfScatter, len(dst)) {
		return f.scatterDirect(dst, src, root)
	}
	n, most := len(dst), f.blockRoom()
	if f.Rank == root {
		n = len(src) / f.Size
		if !inPlace(dst, src) {
			copy(dst, blockAt(src, root, n))
		}
	}
	if f.Size == 1 {
		return nil
	}
	for off := 0; off < n; off += most {
		c := min(most, n-off)
		if f.Rank == root {
			if err := f.beginStep((f.Size - 1) * c); err != nil {
				return err
			}
			f.packBlocks(src, n, off, c)
			f.publish()
		} else {
			f.step++
			if err := f.awaitRank(root); err != nil {
				return err
			}
			copy(dst[off:], f.packed(root, c))
		}
		f.endStep()
	}
	return nil
}

// blockRoom returns the bytes of each other rank's block that a slot has room for.
func (f *Shm) blockRoom() int { return f.slotBytes / max(1, f.Size-1) }

// packBlocks copies c bytes, from off on, of each other rank's block of n bytes into this rank's slot.
func (f *Shm) packBlocks(src []byte, n, off, c int) {
	out := f.data(f.Rank, (f.Size-1)*c)
	for r := range f.Size {
		if r != f.Rank {
			f.copier.Copy(out[:c], blockAt(src, r, n)[off:off+c])
			out = out[c:]
		}
	}
}

// packed returns the c bytes for this rank in another rank's slot. That rank has no bytes for itself there.
func (f *Shm) packed(rank, c int) []byte {
	at := f.Rank
	if at > rank {
		at--
	}
	return blockAt(f.data(rank, (f.Size-1)*c), at, c)
}

// Allgather collects the src of all ranks in dst of each, in rank order.
//
// Cost: that of a Barrier, and n copies.
func (f *Shm) Allgather(dst, src []byte) error {
	n := len(dst) / f.Size
	if f.copiesDirectly(OfAllgather, n) {
		return f.allgatherDirect(dst, src)
	}
	own, moved := blockAt(dst, f.Rank, n), inPlace(dst, src)
	if moved {
		src = own
	}
	if f.Size == 1 {
		copy(own, src)
		return nil
	}
	for off := 0; off < n; off += f.slotBytes {
		c := min(f.slotBytes, n-off)
		if err := f.beginStep(c); err != nil {
			return err
		}
		f.copier.Copy(f.data(f.Rank, c), src[off:off+c])
		if !moved { // while the source is in the cache
			copy(own[off:off+c], src[off:off+c])
		}
		if err := f.synchronize(); err != nil {
			return err
		}
		f.copyFromAll(dst, n, off, c)
	}
	return nil
}

// allgatherParts collects the parts of dst, of which each rank has that with its number.
//
// Cost: that of a Barrier, and n copies.
func (f *Shm) allgatherParts(dst []byte, parts partition) error {
	longest := len(parts.part(dst, 0))
	for off := 0; off < longest; off += f.slotBytes {
		chunk := func(rank int) []byte {
			part := parts.part(dst, rank)
			return part[min(off, len(part)):min(off+f.slotBytes, len(part))]
		}
		own := chunk(f.Rank)
		if err := f.beginStep(len(own)); err != nil {
			return err
		}
		f.copier.Copy(f.data(f.Rank, len(own)), own)
		if err := f.synchronize(); err != nil {
			return err
		}
		for r := range f.Size {
			if to := chunk(r); r != f.Rank {
				copy(to, f.data(r, len(to)))
			}
		}
	}
	return nil
}

// Alltoall copies block i of src to rank i, into the block of dst that has this rank's number.
//
// Cost: that of a Barrier, and 2 * n copies.
func (f *Shm) Alltoall(dst, src []byte) error {
	if f.copiesDirectly(OfAlltoall, len(dst)/f.Size) {
		return f.alltoallDirect(dst, src)
	}
	n, most := len(dst)/f.Size, f.blockRoom()
	to, from := blockAt(dst, f.Rank, n), blockAt(src, f.Rank, n)
	if f.Size == 1 {
		copy(to, from)
		return nil
	}
	for off := 0; off < n; off += most {
		c := min(most, n-off)
		if err := f.beginStep((f.Size - 1) * c); err != nil {
			return err
		}
		f.packBlocks(src, n, off, c)
		if !inPlace(dst, src) {
			copy(to[off:off+c], from[off:])
		}
		if err := f.synchronize(); err != nil {
			return err
		}
		for r := range f.Size {
			if r != f.Rank {
				copy(blockAt(dst, r, n)[off:], f.packed(r, c))
			}
		}
	}
	return nil
}
