package coll

import (
	"fmt"
	"sync/atomic"
)

// ShmImmediate does immediate collectives of little data over memory that all ranks of a communicator have mapped. All ranks
// begin the same calls in the same order. No method blocks or allocates.
//
// Every rank has some slots, and uses them cyclically, one per call. A slot is as in [Shm]: a word, a description of the call,
// and data. A rank that has data for others copies them into its slot and publishes the number of the call in the word: it posts
// the call. It ends the call when the words that it needs have that number, and it has read the data. A rank posts its calls in
// order, and ends them in order. It writes a slot again when all ranks have ended the call that used it last, which each of them
// publishes in a word of its own.
//
// All calls end in time: consider the earliest call that some rank has not ended. All ranks have ended the call before that used
// the same slots, so each can post it, and then each can end it.
type ShmImmediate struct {
	mem        []byte
	rank, size int
	room       int // bytes of data in a slot
	sync       WordPublisher

	begun, posted, ended uint64 // number of calls
	allEnded             uint64 // calls that all ranks have ended, as far as this rank knows
	history              uint64 // hash of the calls so far
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
	immediateRoom     = 8 * kib    // bytes of data in a slot: the maximum
	immediateMaxBytes = 4096 * kib // the data of all slots together
)

// ShmImmediateBytes returns the bytes of memory of a ShmImmediate.
func ShmImmediateBytes(ranks int) int {
	return ranks * (line + immediateSlots*(line+immediateRoomOf(ranks)))
}

// immediateRoomOf returns the bytes of data in a slot.
func immediateRoomOf(ranks int) int {
	return min(immediateRoom, immediateMaxBytes/(ranks*immediateSlots)) / line * line
}

// NewShmImmediate returns a ShmImmediate. mem is the same memory at each rank, zeroed before the first rank uses it, and aligned
// to 128 bytes. The ranks need not wait for each other.
func NewShmImmediate(mem []byte, rank, size int, sync WordPublisher) (*ShmImmediate, error) {
	if n := ShmImmediateBytes(size); len(mem) < n || !aligned(mem) {
		return nil, fmt.Errorf("coll: immediate collectives of %d ranks need %d aligned bytes, but got %d", size, n, len(mem))
	}
	return &ShmImmediate{mem: mem, rank: rank, size: size, room: immediateRoomOf(size), sync: sync}, nil
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
	first    int    // of ReduceScatter: where the part of this rank begins
	number   uint64 // of the call at each rank, from 1 on; 0: it has not begun
	call     uint64 // what the ranks compare
}

// Begun reports whether Begin was called.
func (x *ShmCall) Begun() bool { return x.number != 0 }

// Begin begins a call. describes describes it in CallBits bits, the same at all ranks.
func (f *ShmImmediate) Begin(x *ShmCall, describes uint64) {
	f.begun++
	x.number = f.begun
	x.call = f.history>>CallBits<<CallBits | describes
	f.history = (f.history ^ describes) * mixer
}

// MaxImmediateBytes returns the largest length, counted as [Rule.MaxBytes] describes, of an immediate collective that a
// ShmImmediate does; -1 if it does none of this kind.
func MaxImmediateBytes(c Collective, ranks int) int {
	room := immediateRoomOf(ranks)
	switch c {
	case OfAllgatherv:
		return -1
	case OfAlltoall, OfScatter: // a slot has a block for each other rank
		return room / max(1, ranks-1)
	}
	return room
}

// What a call waits for, if not for a rank.
const (
	earlierCall = -1 - iota // an earlier call of this rank
	notInUse                // nothing: the slot can be written
)

// Advance does as much of a call as is possible. It returns the rank for which the call waits, a negative number if that is an
// earlier call of this rank, and whether the call has ended.
func (f *ShmImmediate) Advance(x *ShmCall) (waitsFor int, ended bool, err error) {
	if f.posted < x.number {
		if f.posted+1 != x.number {
			return earlierCall, false, nil
		}
		if x.posts(f.rank) {
			if r := f.inUse(x.number); r != notInUse {
				return r, false, nil
			}
			f.fill(x)
			*word(f.mem, f.head(f.rank, x)+callOffset) = x.call
			f.sync.Publish(word(f.mem, f.head(f.rank, x)), x.number)
		}
		f.posted++
	}
	if f.ended+1 != x.number {
		return earlierCall, false, nil
	}
	for r := range f.size {
		if r == f.rank || !x.posts(r) || !x.reads(f.rank) {
			continue
		}
		head := f.head(r, x)
		if atomic.LoadUint64(word(f.mem, head)) != x.number {
			return r, false, nil
		}
		if other := *word(f.mem, head+callOffset); other != x.call {
			return r, false, f.sync.Differ(r, x.call, other)
		}
	}
	f.finish(x)
	f.ended++
	f.sync.Publish(f.endedWord(f.rank), f.ended)
	return 0, true, nil
}

// posts reports whether a rank has data for others. In a Barrier, the call itself is what others wait for.
func (x *ShmCall) posts(rank int) bool {
	switch x.Collective {
	case OfBcast, OfScatter:
		return rank == x.Root
	case OfGather:
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

// inUse returns a rank that has not ended the call which used the slot of a call last; notInUse if all ranks have.
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

// Layout of the memory: a word per rank for the number of calls that it has ended; the words of all slots, with the data beside
// them; the data of all slots. Every word has a line of its own.

func (f *ShmImmediate) endedWord(rank int) *uint64 { return word(f.mem, rank*line) }

// slot returns the number of the slot of a rank in a call.
func (f *ShmImmediate) slot(rank int, x *ShmCall) int {
	return rank*immediateSlots + int(x.number%immediateSlots)
}

// head returns the offset of the word of a slot.
func (f *ShmImmediate) head(rank int, x *ShmCall) int { return (f.size + f.slot(rank, x)) * line }

// data returns the room for n bytes in the slot of a rank.
func (f *ShmImmediate) data(rank int, x *ShmCall, n int) []byte {
	at := f.head(rank, x) + line - inlineBytes
	if n > inlineBytes {
		at = f.size*(1+immediateSlots)*line + f.slot(rank, x)*f.room
	}
	return f.mem[at : at+n : at+n]
}

// packed returns where in the slot of one rank the block for another one is. A slot has no block for its own rank.
func (f *ShmImmediate) packed(from, to int, x *ShmCall) []byte {
	at := to
	if to > from {
		at--
	}
	return blockAt(f.data(from, x, (f.size-1)*x.Bytes), at, x.Bytes)
}

// fill copies the data of this rank into its slot.
func (f *ShmImmediate) fill(x *ShmCall) {
	switch x.Collective {
	case OfBarrier:
	case OfAlltoall, OfScatter:
		for r := range f.size {
			if r != f.rank {
				copy(f.packed(f.rank, r, x), blockAt(x.src, r, x.Bytes))
			}
		}
	default:
		src := x.src
		if x.Collective == OfAllgather && inPlace(x.dst, src) {
			src = blockAt(x.dst, f.rank, x.Bytes)
		}
		copy(f.data(f.rank, x, x.Bytes), src)
	}
}

// finish computes the result of this rank.
func (f *ShmImmediate) finish(x *ShmCall) {
	switch x.Collective {
	case OfBcast:
		if f.rank != x.Root {
			copy(x.dst, f.data(x.Root, x, x.Bytes))
		}
	case OfScatter:
		if f.rank != x.Root {
			copy(x.dst, f.packed(x.Root, f.rank, x))
		} else if !inPlace(x.dst, x.src) {
			copy(x.dst, blockAt(x.src, f.rank, x.Bytes))
		}
	case OfReduce:
		if f.rank == x.Root {
			f.combine(x, 0, x.Bytes)
		}
	case OfAllreduce:
		f.combine(x, 0, x.Bytes)
	case OfReduceScatter:
		f.combine(x, x.first, x.first+len(x.dst))
	case OfGather:
		if f.rank == x.Root {
			f.collect(x)
		}
	case OfAllgather:
		f.collect(x)
	case OfAlltoall:
		if !inPlace(x.dst, x.src) {
			copy(blockAt(x.dst, f.rank, x.Bytes), blockAt(x.src, f.rank, x.Bytes))
		}
		for r := range f.size {
			if r != f.rank {
				copy(blockAt(x.dst, r, x.Bytes), f.packed(r, f.rank, x))
			}
		}
	}
}

// collect copies the blocks of all ranks to dst.
func (f *ShmImmediate) collect(x *ShmCall) {
	for r := range f.size {
		to := blockAt(x.dst, r, x.Bytes)
		switch {
		case r != f.rank:
			copy(to, f.data(r, x, x.Bytes))
		case !inPlace(x.dst, x.src):
			copy(to, x.src)
		}
	}
}

// combine combines the bytes lo to hi of all ranks into dst, in rank order.
func (f *ShmImmediate) combine(x *ShmCall, lo, hi int) {
	if lo == hi {
		return
	}
	part := func(r int) []byte { return f.data(r, x, x.Bytes)[lo:hi] }
	dst := x.dst[:hi-lo]
	x.op.Kernel(dst, part(0), part(1))
	for r := 2; r < f.size; r++ {
		x.op.Kernel(dst, dst, part(r))
	}
}
