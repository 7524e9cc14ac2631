package coll

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"runtime"
)

// Blocks that are long are copied once, from the memory of one rank to that of another, and not into a slot and out of it. The
// ranks tell each other where their buffers are, and each copies for itself. A second step ends the collective: a rank returns
// when all others have copied from its buffer.

// RemoteMemory is the memory of the other ranks. It is used by one goroutine at a time.
type RemoteMemory interface {
	// Process returns the number of this process, for Read of other ranks.
	Process() uint64
	// Address returns the address by which other ranks reach b.
	Address(b []byte) uint64
	// Read copies len(dst) bytes at an address of a rank, whose Process is given, to dst.
	Read(rank int, process uint64, dst []byte, addr uint64) error
}

const addressBytes = 8

// copiesDirectly reports whether blocks of n bytes are copied directly in a collective. The first time, the ranks find out
// whether they can.
func (f *Shm) copiesDirectly(c Collective, n int) (bool, error) {
	if f.Remote == nil || n <= minSlotBytes || f.Select(c, n) != DirectCopy {
		return false, nil
	}
	if f.processes == nil {
		if err := f.tryRemote(); err != nil {
			return false, err
		}
	}
	return f.Remote != nil, nil
}

// tryRemote sets Remote to nil unless each rank can read the memory of all others. It is a collective.
func (f *Shm) tryRemote() error {
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

// exchangeAddresses begins a step in which each rank publishes an address, and returns when all have.
func (f *Shm) exchangeAddresses(addr uint64) error {
	if err := f.beginStep(); err != nil {
		return err
	}
	binary.NativeEndian.PutUint64(f.data(f.Rank, addressBytes), addr)
	return f.synchronize()
}

// address returns the address that a rank has published in this step.
func (f *Shm) address(rank int) uint64 { return binary.NativeEndian.Uint64(f.data(rank, addressBytes)) }

// alltoallDirect is Alltoall for long blocks. Each rank reads its blocks from the others, beginning with the rank after it.
//
// Cost: that of two Barriers, and n copies; in place, 2 * n copies.
func (f *Shm) alltoallDirect(dst, src []byte) error {
	n := len(dst) / f.Size
	if inPlace(dst, src) {
		f.own = append(f.own[:0], src...)
		src = f.own
	}
	if err := f.exchangeAddresses(f.Remote.Address(src)); err != nil {
		return err
	}
	for d := 1; d < f.Size; d++ {
		r := mod(f.Rank+d, f.Size)
		if err := f.Remote.Read(r, f.processes[r], blockAt(dst, r, n), f.address(r)+uint64(f.Rank*n)); err != nil {
			return err
		}
	}
	copy(blockAt(dst, f.Rank, n), blockAt(src, f.Rank, n))
	err := f.Barrier() // all have read
	runtime.KeepAlive(&src[0])
	return err
}

// scatterDirect is Scatter for long blocks.
//
// Cost: two cache lines from one core to another, and one copy at each rank.
func (f *Shm) scatterDirect(dst, src []byte, root int) error {
	if f.Rank != root {
		f.step++
		if err := f.awaitRank(root); err != nil {
			return err
		}
		if err := f.Remote.Read(root, f.processes[root], dst, f.address(root)+uint64(f.Rank*len(dst))); err != nil {
			return err
		}
		f.endStep()
		return nil
	}
	if err := f.beginStep(); err != nil {
		return err
	}
	binary.NativeEndian.PutUint64(f.data(root, addressBytes), f.Remote.Address(src))
	f.publish()
	f.endStep()
	if n := len(src) / f.Size; !inPlace(dst, src) {
		copy(dst, blockAt(src, root, n))
	}
	for r := range f.Size {
		if r == root {
			continue
		}
		if err := f.wait(r, f.endedWord(r), f.step); err != nil {
			return err
		}
	}
	runtime.KeepAlive(&src[0])
	return nil
}
