package coll

import (
	"encoding/binary"
	"sync/atomic"
)

// An immediate Bcast or Scatter of long blocks may copy them directly from the memory of the root, as a blocking one does
// (shm_direct.go); ChooseImmediate says when. Its steps are:
//
//  1. Advance: the root posts the address of its buffer in its slot, and the others post their slots. The step is done when the
//     root has posted.
//  2. Copy, as often as needed: a rank that is not the root copies.
//  3. Advance: it publishes that it has read all that it needs. At the root the step is done when all others have published this,
//     at the others when their earlier calls have ended. The call ends with it.
//
// What a rank publishes is its stage, beside the word of its slot.
//
// If its call fails, the root publishes that before the program gets the buffer back: another rank that still reads it may
// read anything. So each rank, after it has copied, checks the stage of the root, and waits for the root if its call has failed.
// The root has left the context of collectives then, so the call fails here, too. No rank writes into the memory of another.

// The stages of a rank in a call, in their order.
const (
	stagePosted = iota // the address is valid
	stageDone          // it has read all that it needs
	stageFailed        // its call has failed
	stages
)

// copyBytes is how many bytes Copy copies at a time. A system call for a copy takes some 3 us, as long as the copy of 64 KiB.
const copyBytes = 512 * kib

// Offsets, from the word of a slot, of the stage and of the address.
const (
	stageOffset   = line - inlineBytes
	addressOffset = stageOffset + 8
)

// directState is what a call with direct copies needs besides.
type directState struct {
	address uint64 // of the buffer of the root
	stage   int    // the stage that this rank has reached
	shown   int    // the stage that it has published
	at      int    // of Copy: bytes that it has copied
	err     error  // of Copy
}

// ReadDirectly makes f copy long blocks directly from m. processes are those of the ranks. All ranks must be able to read the
// memory of all others. Unlike for a Shm, several goroutines may call Read at once.
func (f *ShmImmediate) ReadDirectly(m RemoteMemory, processes []uint64) {
	f.remote, f.processes = m, processes
}

// Select returns the algorithm of an immediate collective of some bytes, counted as [Rule.MaxBytes] describes: SharedMemory or
// DirectCopy, or None if it uses messages. The result is the same at all ranks.
func (f *ShmImmediate) Select(c Collective, bytes int) Algorithm {
	has := Shared
	if f.remote != nil {
		has = Direct
	}
	return ChooseImmediate(f.table, c, bytes, f.size, has).Algorithm
}

// addDirect records the steps of a call with direct copies, which f does.
func (p *Plan) addDirect(f *ShmImmediate, phase int) {
	x := &p.SharedCalls[phase]
	p.add(Step{Kind: StepShared, Peer: phase})
	p.add(Step{Kind: StepDirect, Peer: phase})
	if x.Collective == OfScatter && f.rank == x.Root && !inPlace(x.dst, x.src) {
		p.Copy(x.dst, blockAt(x.src, f.rank, x.Bytes))
	}
	p.add(Step{Kind: StepShared, Peer: phase})
}

// fillAddress writes the address of the root's buffer into its slot.
func (f *ShmImmediate) fillAddress(x *ShmCall) {
	if f.rank == x.Root {
		binary.NativeEndian.PutUint64(f.words[f.head(f.rank, x.number)+addressOffset:], f.remote.Address(x.src))
	}
	atomic.StoreUint64(f.stageWord(f.rank, x), x.number*stages+stagePosted)
}

func (f *ShmImmediate) stageWord(rank int, x *ShmCall) *uint64 {
	return word(f.words, f.head(rank, x.number)+stageOffset)
}

// stageOf returns the stage of a rank in a call; ok is false if it has not posted the call.
func (f *ShmImmediate) stageOf(rank int, x *ShmCall) (stage int, ok bool) {
	if atomic.LoadUint64(word(f.words, f.head(rank, x.number))) != x.number {
		return 0, false
	}
	return int(atomic.LoadUint64(f.stageWord(rank, x)) % stages), true
}

// show publishes the stage that this rank has reached, unless it has.
func (f *ShmImmediate) show(x *ShmCall) {
	if x.shown != x.stage {
		f.publishStage(x, x.stage)
	}
}

func (f *ShmImmediate) publishStage(x *ShmCall, stage int) {
	x.shown = stage
	f.sync.Publish(f.stageWord(f.rank, x), x.number*stages+uint64(stage))
}

// Fail must be called when a call has failed, before its buffers are used for anything else. Afterwards the call must not be
// advanced. Another goroutine may be in Copy. If the call has ended, which others may follow in the same plan, its slot may have
// been posted for a later call: then Fail does nothing.
func (f *ShmImmediate) Fail(x *ShmCall) {
	if x.direct && f.ended < x.number && x.number <= f.posted {
		f.publishStage(x, stageFailed)
	}
}

// advanceDirect does Advance of a call that has been posted.
func (f *ShmImmediate) advanceDirect(x *ShmCall) (waitsFor int, done bool, err error) {
	if x.stage == stageDone {
		return f.endDirect(x)
	}
	if f.rank == x.Root {
		return 0, true, nil
	}
	head := f.head(x.Root, x.number)
	if atomic.LoadUint64(word(f.words, head)) != x.number {
		return x.Root, false, nil
	}
	if other := *word(f.words, head+callOffset); other != x.call {
		return x.Root, false, f.sync.Differ(x.Root, x.call, other)
	}
	x.address = binary.NativeEndian.Uint64(f.words[head+addressOffset:])
	return 0, true, nil
}

// endDirect ends a call that has copied all data.
func (f *ShmImmediate) endDirect(x *ShmCall) (waitsFor int, done bool, err error) {
	if x.shown != stageDone {
		if f.rank != x.Root { // after the copy, and before the root learns that it has been made
			if stage, _ := f.stageOf(x.Root, x); stage == stageFailed {
				return x.Root, false, nil
			}
		}
		if x.err != nil {
			return 0, false, x.err
		}
		f.show(x)
	}
	if f.ended+1 != x.number {
		return earlierCall, false, nil
	}
	for r := 0; f.rank == x.Root && r < f.size; r++ {
		if r == x.Root {
			continue
		}
		if stage, ok := f.stageOf(r, x); !ok || stage != stageDone {
			return r, false, nil
		}
	}
	f.end()
	return 0, true, nil
}

// Copy does a part of the long step of a call, and reports whether the step has been done. It reads no memory of f, so that other
// calls can be advanced meanwhile.
func (f *ShmImmediate) Copy(x *ShmCall) (done bool) {
	if f.rank != x.Root {
		dst, addr := x.dst[x.at:min(x.at+copyBytes, len(x.dst))], x.address+uint64(x.at)
		if x.Collective == OfScatter {
			addr += uint64(f.rank * x.Bytes)
		}
		if x.err = f.remote.Read(x.Root, f.processes[x.Root], dst, addr); x.err == nil {
			if x.at += len(dst); x.at < len(x.dst) {
				return false
			}
		}
	}
	x.stage = stageDone
	return true
}
