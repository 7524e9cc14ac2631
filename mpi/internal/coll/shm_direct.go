package coll

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
)

// Blocks that are long are copied once, from the memory of one rank to that of another, and not into a slot and out of it. The
// ranks tell each other where their buffers are, and each copies for itself. A second step ends the collective: a rank returns
// when all others have copied from its buffer, or with an error. In that case it first withdraws its buffer, in a word beside the
// address. A rank that has copied reads this word: what it has copied is valid if the buffer was not withdrawn until then.

// RemoteMemory is the memory of the other ranks. It is used by one goroutine at a time.
type RemoteMemory interface {
	// Process returns the number of this process, for Read of other ranks.
	Process() uint64
	// Address returns the address by which other ranks reach b.
	Address(b []byte) uint64
	// Read copies len(dst) bytes at an address of a rank, whose Process is given, to dst.
	Read(rank int, process uint64, dst []byte, addr uint64) error
}

const (
	addressBytes = 8
	maxKeptBytes = 4 * kib * kib // longer copies of buffers are not kept for later calls
	reduceBytes  = 128 * kib     // bytes that a reduction combines at a time; they fit into the cache of a core
)

// copiesDirectly reports whether blocks of n bytes are copied directly in a collective.
func (f *Shm) copiesDirectly(c Collective, n int) bool {
	return f.Remote != nil && n > minSlotBytes && f.Select(c, n) == DirectCopy
}

// Processes returns those of the ranks, for Remote.
func (f *Shm) Processes() []uint64 { return f.processes }

// TryRemote sets Remote to nil unless each rank can read the memory of all others. It is a collective, and must be the first one
// if Remote is not nil.
func (f *Shm) TryRemote() error {
	var probe, got [addressBytes]byte
	binary.NativeEndian.PutUint64(probe[:], rand.Uint64())
	const length = 3 * addressBytes
	known := make([]byte, f.Size*length) // of each rank: its process, where its probe is, and the contents
	mine := binary.NativeEndian.AppendUint64(nil, f.Remote.Process())
	mine = binary.NativeEndian.AppendUint64(mine, f.Remote.Address(probe[:]))
	if err := f.Allgather(known, append(mine, probe[:]...)); err != nil {
		return err
	}
	failed := []byte{0}
	f.processes = make([]uint64, f.Size)
	for r := range f.Size {
		of := blockAt(known, r, length)
		f.processes[r] = binary.NativeEndian.Uint64(of)
		if r == f.Rank {
			continue
		}
		err := f.Remote.Read(r, f.processes[r], got[:], binary.NativeEndian.Uint64(of[addressBytes:]))
		if err != nil || !bytes.Equal(got[:], of[2*addressBytes:]) {
			failed[0] = 1
		}
	}
	all := make([]byte, f.Size)
	err := f.Allgather(all, failed) // so all have read
	runtime.KeepAlive(&probe)
	if err == nil && bytes.IndexByte(all, 1) >= 0 {
		f.Remote = nil
	}
	return err
}

// exchangeAddresses begins a step in which each rank publishes the address of b, and returns when all have.
func (f *Shm) exchangeAddresses(b []byte) error {
	if err := f.beginStep(0); err != nil {
		return err
	}
	f.putAddress(b)
	return f.synchronize()
}

// putAddress writes the address of b into this rank's slot.
func (f *Shm) putAddress(b []byte) {
	slot := f.data(f.Rank, 2*addressBytes)
	binary.NativeEndian.PutUint64(slot, f.Remote.Address(b))
	binary.NativeEndian.PutUint64(slot[addressBytes:], 0)
	f.offered = f.step
}

// withdrawnWord returns the word in which a rank publishes the number of a step in which it withdraws its buffer.
func (f *Shm) withdrawnWord(rank int, step uint64) *uint64 {
	return word(f.Mem, f.headOffsetIn(rank, step)+line-inlineBytes+addressBytes)
}

// withdrawOn withdraws this rank's buffer, if it has put its address into the slot of a step and *err is not nil. It is called
// before the program can use the buffer for something else.
func (f *Shm) withdrawOn(err *error, step uint64) {
	if *err != nil && f.offered == step {
		f.Sync.Publish(f.withdrawnWord(f.Rank, step), step)
	}
}

var errWithdrawn = errors.New("coll: the call of another rank has failed")

// validate returns an error if a rank has withdrawn the buffer whose address it has put into the slot of a step. It is called
// after this rank has copied from it.
func (f *Shm) validate(rank int, step uint64) error {
	w := f.withdrawnWord(rank, step)
	if atomic.LoadUint64(w) != step {
		return nil
	}
	return cmp.Or(f.Sync.WaitAtLeast(rank, w, step+1), errWithdrawn) // that rank leaves the communicator
}

// address returns the address that a rank has published in this step.
func (f *Shm) address(rank int) uint64 { return binary.NativeEndian.Uint64(f.data(rank, addressBytes)) }

// alltoallDirect is Alltoall for long blocks. Each rank reads its blocks from the others, beginning with the rank after it.
//
// Cost: that of two Barriers, and n copies; in place, 2 * n copies.
func (f *Shm) alltoallDirect(dst, src []byte) (err error) {
	n := len(dst) / f.Size
	if inPlace(dst, src) {
		f.own = append(f.own[:0], src...)
		if src = f.own; len(src) > maxKeptBytes {
			f.own = nil
		}
	}
	defer f.withdrawOn(&err, f.step+1)
	if err := f.exchangeAddresses(src); err != nil {
		return err
	}
	for d := 1; d < f.Size; d++ {
		r := mod(f.Rank+d, f.Size)
		if err := f.readFrom(r, blockAt(dst, r, n), f.Rank*n); err != nil {
			return err
		}
	}
	copy(blockAt(dst, f.Rank, n), blockAt(src, f.Rank, n))
	err = f.Barrier() // all have read
	runtime.KeepAlive(&src[0])
	return err
}

// allgatherDirect is Allgather for long blocks.
//
// Cost: that of two Barriers, and n copies.
func (f *Shm) allgatherDirect(dst, src []byte) (err error) {
	n := len(dst) / f.Size
	own, moved := blockAt(dst, f.Rank, n), inPlace(dst, src)
	if moved {
		src = own
	}
	defer f.withdrawOn(&err, f.step+1)
	if err := f.exchangeAddresses(src); err != nil {
		return err
	}
	for d := 1; d < f.Size; d++ {
		r := mod(f.Rank+d, f.Size)
		if err := f.readFrom(r, blockAt(dst, r, n), 0); err != nil {
			return err
		}
	}
	if !moved {
		copy(own, src)
	}
	err = f.Barrier() // all have read
	runtime.KeepAlive(&src[0])
	return err
}

// gatherDirect is Gather for long blocks.
//
// Cost: two cache lines from one core to another, and n copies at the root.
func (f *Shm) gatherDirect(dst, src []byte, root int) (err error) {
	if f.Rank != root {
		defer f.withdrawOn(&err, f.step+1)
		if err := f.offer(src); err != nil {
			return err
		}
		err = f.wait(root, f.endedWord(root), f.step)
		runtime.KeepAlive(&src[0])
		return err
	}
	n := len(dst) / f.Size
	if own := blockAt(dst, root, n); !inPlace(dst, src) {
		copy(own, src)
	}
	f.step++
	f.pauseOnce()
	for r := range f.Size {
		if r == root {
			continue
		}
		err := f.awaitAt(r, f.headOffset(r))
		if err == nil {
			err = f.readFrom(r, blockAt(dst, r, n), 0)
		}
		if err != nil {
			return err
		}
	}
	f.endStep()
	return nil
}

// bcastDirect is Bcast of a long buffer.
//
// Cost: two cache lines from one core to another, and one copy at each rank.
func (f *Shm) bcastDirect(buf []byte, root int) (err error) {
	if f.Rank != root {
		return f.readRoot(root, buf, 0)
	}
	defer f.withdrawOn(&err, f.step+1)
	if err := f.offer(buf); err != nil {
		return err
	}
	return f.awaitReaders(buf)
}

// scatterDirect is Scatter for long blocks.
//
// Cost: two cache lines from one core to another, and one copy at each rank.
func (f *Shm) scatterDirect(dst, src []byte, root int) (err error) {
	if f.Rank != root {
		return f.readRoot(root, dst, f.Rank*len(dst))
	}
	defer f.withdrawOn(&err, f.step+1)
	if err := f.offer(src); err != nil {
		return err
	}
	if n := len(src) / f.Size; !inPlace(dst, src) {
		copy(dst, blockAt(src, root, n))
	}
	return f.awaitReaders(src)
}

// readFrom copies from an offset of the buffer whose address a rank has published in this step.
func (f *Shm) readFrom(rank int, dst []byte, offset int) error {
	if err := f.Remote.Read(rank, f.processes[rank], dst, f.address(rank)+uint64(offset)); err != nil {
		return err
	}
	return f.validate(rank, f.step)
}

// readRoot does a step in which this rank copies from an offset of the root's buffer.
func (f *Shm) readRoot(root int, dst []byte, offset int) error {
	f.step++
	if err := f.awaitRank(root); err != nil {
		return err
	}
	if err := f.readFrom(root, dst, offset); err != nil {
		return err
	}
	f.endStep()
	return nil
}

// offer begins a step in which others read from b. This rank reads nothing in it, so it has ended it.
func (f *Shm) offer(b []byte) error {
	if err := f.beginStep(0); err != nil {
		return err
	}
	f.putAddress(b)
	f.publish()
	f.endStep()
	return nil
}

// awaitReaders blocks until all others have read from b, which this rank has offered.
func (f *Shm) awaitReaders(b []byte) error {
	for r := range f.Size {
		if r != f.Rank {
			if err := f.wait(r, f.endedWord(r), f.step); err != nil {
				return err
			}
		}
	}
	runtime.KeepAlive(&b[0])
	return nil
}

// reduceDirect combines bytes lo to hi of the long src of all ranks into dst of this rank. Each rank may have another range, and
// an empty one; ranges do not overlap, or are the same. dst may be the start of src, or that range of it.
//
// The ranks do a piece of their ranges at a time, as many pieces as there are in src, with a barrier after each. After it, a rank
// may write its piece of the result into src: the other ranks have read those bytes, or do not need them, since their later
// pieces begin further on or are in other ranges.
//
// Cost: that of a Barrier, that of another one for each piece, and (n-1) * m * (b+g).
func (f *Shm) reduceDirect(dst, src []byte, lo, hi int, op *Operation) (err error) {
	dst = dst[:hi-lo]
	overwritten := inPlace(dst, src) || lo < hi && inPlace(dst, src[lo:])
	piece := reduceBytes - reduceBytes%op.ElemSize
	f.growOperands(min(piece, len(dst)))
	offered := f.step + 1
	defer f.withdrawOn(&err, offered)
	if err := f.exchangeAddresses(src); err != nil {
		return err
	}
	for r := range f.Size {
		f.addresses[r] = f.address(r)
	}
	for off := 0; off < len(src); off += piece {
		n := max(0, min(piece, hi-lo-off))
		var out []byte
		if n != 0 {
			if out = dst[off : off+n]; overwritten {
				out = f.operands[2][:n]
			}
			read := func(rank int, b []byte) error {
				return f.Remote.Read(rank, f.processes[rank], b, f.addresses[rank]+uint64(lo+off))
			}
			own, scratch := src[lo+off:][:n], [2][]byte(f.operands[:2])
			if err := reduceRemote(out, own, f.Rank, f.Size, scratch, read, op); err != nil {
				return err
			}
		}
		for r := range f.Size {
			if err := f.validate(r, offered); err != nil {
				return err
			}
		}
		if err := f.Barrier(); err != nil { // all have read this piece
			return err
		}
		if overwritten && n != 0 {
			copy(dst[off:], out)
		}
	}
	runtime.KeepAlive(&src[0])
	return nil
}

// reduceRemote combines data of all ranks into out, in rank order. own are those of this rank; read reads those of another one,
// into scratch.
func reduceRemote(out, own []byte, self, size int, scratch [2][]byte, read func(rank int, b []byte) error, op *Operation) error {
	var sum []byte
	for r := range size {
		operand := own
		if r != self {
			operand = scratch[min(r, 1)][:len(own)]
			if err := read(r, operand); err != nil {
				return err
			}
		}
		if r == 0 {
			sum = operand
			continue
		}
		op.Kernel(out, sum, operand)
		sum = out
	}
	return nil
}

// growOperands makes room for n bytes in each of the operands.
func (f *Shm) growOperands(n int) {
	for i := range f.operands {
		if len(f.operands[i]) < n {
			f.operands[i] = make([]byte, n)
		}
	}
	if f.addresses == nil {
		f.addresses = make([]uint64, f.Size)
	}
}
