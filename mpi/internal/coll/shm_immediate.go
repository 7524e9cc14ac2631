package coll

import (
	"fmt"
	"sync/atomic"

	"github.com/ibrun/ibrun/internal/shm"
)

// ShmImmediate does immediate collectives over memory that all its ranks have mapped: those of a communicator, or those of it
// that are on one node. All ranks begin the same calls in the same order. No method blocks or allocates. Some long blocks are
// copied directly from the memory of the root; see shm_immediate_direct.go.
//
// A call consists of parts, of which each takes a slot; one that fits into a slot is one part. All ranks number the parts of all
// calls in the same way. Every rank has some slots, and uses them cyclically, one per part. A slot is as in [Shm]: a word, a
// description of the call, and data. A rank that has data for others copies them into its slot and publishes the number of the
// part in the word: it posts the part. It ends the part when the words that it needs have that number, and it has read the data.
// A rank posts its parts in order, and ends them in order. It writes a slot again when all ranks have ended the part that used it
// last, which each of them publishes in a word of its own.
//
// All calls end in time: consider the earliest part that some rank has not ended. All ranks have ended the part before that used
// the same slots, so each can post it, and then each can end it.
type ShmImmediate struct {
	words      []byte // those of all ranks, with the data beside them
	slots      []byte // the data of all slots
	rank, size int
	room       int // bytes of data in a slot
	sync       WordPublisher
	allocate   func(part []byte) error // nil: all of slots has been allocated
	allocated  slotsAllocated
	remote     RemoteMemory // nil: the ranks cannot read each other's memory
	processes  []uint64     // with remote: those of the ranks
	table      *Table       // rules that are searched first; nil: none

	begun, posted, ended uint64     // number of parts
	allEnded             uint64     // parts that all ranks have ended, as far as this rank knows
	history              uint64     // hash of the calls so far
	copier               shm.Copier // copies data into slots
}

// ShmImmediateConfig describes the memory of a ShmImmediate, as one rank sees it.
type ShmImmediateConfig struct {
	// Words and Data are the same memory at each rank, zeroed before the first rank uses it, and aligned to 128 bytes.
	// ShmImmediateBytes returns how long they are at least. Words has been allocated.
	Words, Data []byte
	// Allocate allocates a part of Data, before it is used. nil: Data has been allocated. Several goroutines may call it at once.
	Allocate func(part []byte) error
	// Rank, Size and Oversubscribed are as in [ShmConfig].
	Rank, Size     int
	Oversubscribed bool
	// Sync is how this rank publishes its words.
	Sync WordPublisher
	// Table has the rules that are searched first; nil: none. It is the same at every rank.
	Table *Table
}

// WordPublisher publishes words of shared memory.
type WordPublisher interface {
	// Publish stores v in *w after all earlier stores, and wakes the ranks that sleep until *w has that value.
	Publish(w *uint64, v uint64)
	// Differ returns the error of a collective in which a rank has made another call than this rank; see [WordSync].
	Differ(rank int, mine, other uint64) error
}

const (
	immediateSlots    = 8          // slots of a rank
	immediateRoom     = 64 * kib   // bytes of data in a slot: the maximum
	immediateMaxBytes = 4096 * kib // the data of all slots together
	minPartBytes      = 4 * kib    // bytes of a block in a part, if there are several parts: the minimum
)

// ShmImmediateBytes returns the bytes of memory of a ShmImmediate.
func ShmImmediateBytes(ranks int) (words, data int) {
	return ranks * (1 + immediateSlots) * line, ranks * immediateSlots * immediateRoomOf(ranks)
}

// immediateRoomOf returns the bytes of data in a slot.
func immediateRoomOf(ranks int) int {
	return min(immediateRoom, immediateMaxBytes/(ranks*immediateSlots)) / line * line
}

// NewShmImmediate returns a ShmImmediate. The ranks need not wait for each other.
func NewShmImmediate(c ShmImmediateConfig) (*ShmImmediate, error) {
	words, data := ShmImmediateBytes(c.Size)
	if len(c.Words) < words || len(c.Data) < data || !aligned(c.Words) || !aligned(c.Data) {
		return nil, fmt.Errorf("coll: immediate collectives of %d ranks need %d and %d aligned bytes, but got %d and %d", c.Size,
			words, data, len(c.Words), len(c.Data))
	}
	f := &ShmImmediate{
		words: c.Words, slots: c.Data, rank: c.Rank, size: c.Size, room: immediateRoomOf(c.Size), sync: c.Sync, allocate: c.Allocate,
		table: c.Table,
	}
	if c.Oversubscribed {
		f.copier.Use(shm.Cached)
	}
	return f, nil
}

// ShmCall is a call of an immediate collective over shared memory.
type ShmCall struct {
	Collective Collective
	Root       int
	// Bytes is the length of the block of each rank; for Bcast and reductions, that of the buffer. It is the same at all ranks.
	Bytes int

	dst, src []byte
	op       *Operation
	used     bool
	first    int       // of ReduceScatter: where the block of this rank begins
	blocks   partition // of Allgather in place: the blocks, of which the longest has Bytes; zero: all have
	part     int       // bytes of each block in one part, but the last part may have fewer; 0: there is one part
	number   uint64    // of the first part at each rank, from 1 on; 0: the call has not begun
	ended    int       // without direct copies: number of parts that this rank has ended
	call     uint64    // what the ranks compare
	failed   error     // of Allocate

	direct bool
	directState
}

// Used reports whether the plan of the call has steps for it.
func (x *ShmCall) Used() bool { return x.used }

// parts returns the number of parts of the call.
func (x *ShmCall) parts() int {
	if x.part == 0 || x.Bytes <= x.part {
		return 1
	}
	return (x.Bytes + x.part - 1) / x.part
}

// partRoom returns the bytes of each block for which a slot has room.
func partRoom(c Collective, ranks int) int {
	room := immediateRoomOf(ranks)
	if c == OfAlltoall || c == OfScatter { // a slot has a block for each other rank
		if room /= max(1, ranks-1); room > line {
			room -= room % line
		}
	}
	return room
}

// fitsImmediate reports whether a collective, of bytes counted as [Rule.MaxBytes] describes, fits into one slot, or can be
// divided into parts that are not too short. Parts of many ranks are short, so that their slots do not take much memory.
func fitsImmediate(c Collective, bytes, ranks int) bool {
	room := partRoom(c, ranks)
	return bytes <= room || room >= minPartBytes
}

// setPart divides the call into parts.
func (f *ShmImmediate) setPart(x *ShmCall) {
	x.part = partRoom(x.Collective, f.size)
	switch {
	case x.direct, x.Collective == OfBarrier:
		x.part = 0
	case x.op != nil && x.op.ElemSize != 0:
		x.part -= x.part % x.op.ElemSize
	}
}

// extent returns the position of a part in each block of n bytes, and its length.
func (x *ShmCall) extent(number uint64) (off, n int) {
	off = int(number-x.number) * x.part
	if x.part == 0 {
		return 0, x.Bytes
	}
	return off, min(x.part, x.Bytes-off)
}

// Begin begins a call. describes describes it in CallBits bits, the same at all ranks.
func (f *ShmImmediate) Begin(x *ShmCall, describes uint64) {
	x.number = f.begun + 1
	f.begun += uint64(x.parts())
	x.call = f.history>>CallBits<<CallBits | describes
	f.Note(describes)
}

// Note adds a call that has no part here to the calls that the ranks compare.
func (f *ShmImmediate) Note(describes uint64) { f.history = (f.history ^ describes) * mixer }

// Allocate allocates the data of the slots that this rank uses in a call which has begun. Unlike Advance it may take long. If it
// fails, Advance fails.
func (f *ShmImmediate) Allocate(x *ShmCall) {
	if x.direct || !x.posts(f.rank) || x.Collective == OfReduce && f.rank == x.Root && !f.overwrites(x) {
		return
	}
	_, n := x.extent(x.number)
	if x.Collective == OfAlltoall || x.Collective == OfScatter {
		n *= f.size - 1
	}
	for i := range min(x.parts(), immediateSlots) {
		part := x.number + uint64(i)
		if slot := part % immediateSlots; n > inlineBytes && !f.allocated.has(slot, n) {
			if x.failed = f.allocated.extend(slot, n, f.data(f.rank, part, f.room), f.allocate); x.failed != nil {
				return
			}
		}
	}
}

// What a call waits for, if not for a rank.
const (
	earlierCall = -1 - iota // an earlier call of this rank
	notInUse                // nothing: the slot can be written
	PartDone                // nothing: a part of the step has been done, and others are left
)

// Advance does as much of a step of a call as is possible. It returns the rank for which the call waits, a negative number if
// that is an earlier call of this rank, or PartDone, and whether the step has been done. Advance copies at most what fits into
// the slots of this rank, and one part of the data of each other rank.
func (f *ShmImmediate) Advance(x *ShmCall) (waitsFor int, done bool, err error) {
	if x.failed != nil {
		return 0, false, x.failed
	}
	part := x.number + uint64(x.ended)
	if waitsFor := f.post(x); f.posted < part {
		return waitsFor, false, nil
	}
	if x.direct {
		return f.advanceDirect(x)
	}
	if f.ended+1 != part {
		return earlierCall, false, nil
	}
	for r := range f.size {
		if r == f.rank || !x.posts(r) || !x.reads(f.rank) {
			continue
		}
		head := f.head(r, part)
		if atomic.LoadUint64(word(f.words, head)) != part {
			return r, false, nil
		}
		if other := *word(f.words, head+callOffset); other != x.call {
			return r, false, f.sync.Differ(r, x.call, other)
		}
	}
	f.finish(x, part)
	f.end()
	if x.ended++; x.ended < x.parts() {
		return PartDone, false, nil
	}
	return 0, true, nil
}

// post posts the parts of a call for which there are slots. It returns what the first part waits for that has no slot. The more
// parts a rank posts before it waits, the fewer context switches there are if ranks share cores.
func (f *ShmImmediate) post(x *ShmCall) (waitsFor int) {
	if f.posted+1 < x.number {
		return earlierCall
	}
	for last := x.number + uint64(x.parts()) - 1; f.posted < last; f.posted++ {
		n := f.posted + 1
		if !x.posts(f.rank) {
			continue
		}
		if r := f.inUse(n); r != notInUse {
			return r
		}
		f.fill(x, n)
		*word(f.words, f.head(f.rank, n)+callOffset) = x.call
		f.sync.Publish(word(f.words, f.head(f.rank, n)), n)
	}
	return notInUse
}

// end publishes that this rank has ended one more part.
func (f *ShmImmediate) end() {
	f.ended++
	f.sync.Publish(f.endedWord(f.rank), f.ended)
}

// posts reports whether a rank has something for others. In a Barrier, the call itself is what others wait for.
func (x *ShmCall) posts(rank int) bool {
	switch {
	case x.direct:
		return true
	case x.Collective == OfBcast, x.Collective == OfScatter:
		return rank == x.Root
	case x.Collective == OfGather:
		return rank != x.Root
	}
	return true
}

// reads reports whether a rank reads data of others.
func (x *ShmCall) reads(rank int) bool {
	switch x.Collective {
	case OfBcast, OfScatter:
		return rank != x.Root
	case OfGather, OfReduce:
		return rank == x.Root
	}
	return true
}

// inUse returns a rank that has not ended the part which used the slot of a part last; notInUse if all ranks have.
func (f *ShmImmediate) inUse(number uint64) int {
	if f.allEnded+immediateSlots >= number {
		return notInUse
	}
	least := f.ended
	for r := range f.size {
		ended := atomic.LoadUint64(f.endedWord(r))
		if ended+immediateSlots < number {
			if r == f.rank {
				return earlierCall
			}
			return r
		}
		least = min(least, ended)
	}
	f.allEnded = least
	return notInUse
}

// Layout of the words: a word per rank for the number of parts that it has ended; the words of all slots, with the data beside
// them. Every word has a line of its own. The data of all slots are in the other memory.

func (f *ShmImmediate) endedWord(rank int) *uint64 { return word(f.words, rank*line) }

// slot returns the number of the slot of a rank for a part.
func (f *ShmImmediate) slot(rank int, part uint64) int {
	return rank*immediateSlots + int(part%immediateSlots)
}

// head returns the offset of the word of a slot.
func (f *ShmImmediate) head(rank int, part uint64) int { return (f.size + f.slot(rank, part)) * line }

// data returns the room for n bytes in the slot of a rank.
func (f *ShmImmediate) data(rank int, part uint64, n int) []byte {
	if n > inlineBytes {
		at := f.slot(rank, part) * f.room
		return f.slots[at : at+n : at+n]
	}
	at := f.head(rank, part) + line - inlineBytes
	return f.words[at : at+n : at+n]
}

// packed returns where in the slot of one rank the n bytes for another one are. A slot has none for its own rank.
func (f *ShmImmediate) packed(from, to int, part uint64, n int) []byte {
	at := to
	if to > from {
		at--
	}
	return blockAt(f.data(from, part, (f.size-1)*n), at, n)
}

// fill copies a part of the data of this rank into its slot.
func (f *ShmImmediate) fill(x *ShmCall, part uint64) {
	off, n := x.extent(part)
	switch c := x.Collective; {
	case x.direct:
		f.fillAddress(x)
	case c == OfBarrier:
	case c == OfReduce && f.rank == x.Root && !f.overwrites(x): // no rank reads its slot
	case c == OfReduceScatter && !f.overwrites(x): // no rank reads this rank's block in this slot
		first := x.first - off
		copyAround(&f.copier, f.data(f.rank, part, n), x.src[off:off+n], first, first+len(x.dst))
	case c == OfAlltoall, c == OfScatter:
		for r := range f.size {
			if r != f.rank {
				f.copier.Copy(f.packed(f.rank, r, part, n), blockAt(x.src, r, x.Bytes)[off:off+n])
			}
		}
	default:
		src := x.src
		if c == OfAllgather && inPlace(x.dst, src) {
			src = x.blockOf(f.rank)
		}
		src = src[min(off, len(src)):min(off+n, len(src))]
		f.copier.Copy(f.data(f.rank, part, n)[:len(src)], src)
	}
}

// finish computes a part of the result of this rank.
func (f *ShmImmediate) finish(x *ShmCall, part uint64) {
	off, n := x.extent(part)
	switch x.Collective {
	case OfBcast:
		if f.rank != x.Root {
			copy(x.dst[off:], f.data(x.Root, part, n))
		}
	case OfScatter:
		if f.rank != x.Root {
			copy(x.dst[off:], f.packed(x.Root, f.rank, part, n))
		} else if !inPlace(x.dst, x.src) {
			copy(x.dst[off:off+n], blockAt(x.src, f.rank, x.Bytes)[off:])
		}
	case OfReduce:
		if f.rank == x.Root {
			f.combine(x, part, x.dst[off:off+n], 0)
		}
	case OfAllreduce:
		f.combine(x, part, x.dst[off:off+n], 0)
	case OfReduceScatter:
		if from, to := max(off, x.first), min(off+n, x.first+len(x.dst)); from < to {
			f.combine(x, part, x.dst[from-x.first:to-x.first], from-off)
		}
	case OfGather:
		if f.rank == x.Root {
			f.collect(x, part)
		}
	case OfAllgather:
		f.collect(x, part)
	case OfAlltoall:
		if !inPlace(x.dst, x.src) {
			copy(blockAt(x.dst, f.rank, x.Bytes)[off:off+n], blockAt(x.src, f.rank, x.Bytes)[off:])
		}
		for r := range f.size {
			if r != f.rank {
				copy(blockAt(x.dst, r, x.Bytes)[off:], f.packed(r, f.rank, part, n))
			}
		}
	}
}

// collect copies a part of the blocks of all ranks to dst.
func (f *ShmImmediate) collect(x *ShmCall, part uint64) {
	off, n := x.extent(part)
	for r := range f.size {
		to := x.blockOf(r)
		to = to[min(off, len(to)):min(off+n, len(to))]
		switch {
		case r != f.rank:
			copy(to, f.data(r, part, n))
		case !inPlace(x.dst, x.src):
			copy(to, x.src[off:])
		}
	}
}

// blockOf returns the block of a rank in dst.
func (x *ShmCall) blockOf(rank int) []byte {
	if x.blocks.parts != 0 {
		return x.blocks.part(x.dst, rank)
	}
	return blockAt(x.dst, rank, x.Bytes)
}

// combine combines the bytes from an offset of a part on, of all ranks, into dst, in rank order.
func (f *ShmImmediate) combine(x *ShmCall, part uint64, dst []byte, from int) {
	off, n := x.extent(part)
	overwrites := f.overwrites(x)
	combineAll(dst, f.size, x.op, func(r int) []byte {
		if r == f.rank && !overwrites {
			return x.src[off:][from : from+len(dst)]
		}
		return f.data(r, part, n)[from : from+len(dst)]
	})
}

// overwrites reports whether a reduction overwrites the operand of this rank before it reads it. Then it reads the copy in the
// slot.
func (f *ShmImmediate) overwrites(x *ShmCall) bool {
	return overwritesOperand(f.rank, x.dst, x.src, x.first)
}
