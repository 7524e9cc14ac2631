package coll

import (
	"fmt"
	"sync/atomic"

	"github.com/ibrun/ibrun/internal/shm"
)

// Shared is the memory that the ranks of one communicator have in common, as one rank sees it.
type Shared struct {
	// Mem is the same memory at each rank, of the same length, zeroed before the first rank uses it, and aligned to 128
	// bytes. FlatBytes tells how much there should be.
	Mem []byte
	// Rank is the number of this rank in the communicator, Size the number of ranks.
	Rank, Size int
	// Crowded tells that there may be fewer cores than ranks, so that whoever waits lets another run at once. It is the
	// same at every rank.
	Crowded bool
	// Cores is how many cores this rank knows of that the ranks share. It may differ between ranks.
	Cores int
	// Wait is how this rank waits for others.
	Wait Waiter
}

// Waiter lets a rank wait for words in shared memory. Words only ever grow. A Waiter is used by one goroutine at a
// time.
type Waiter interface {
	// WaitAtLeast returns when *w >= v, both taken modulo 2^64, or with an error when the communicator is broken.
	// It makes progress with other traffic while it waits. Stores made before the Publish of what it saw are
	// visible afterwards.
	WaitAtLeast(w *uint64, v uint64) error
	// Publish stores v in *w after all stores made before, and wakes the ranks that sleep until it has that value.
	Publish(w *uint64, v uint64)
}

// Flat runs collectives over memory that all ranks of a communicator have mapped. As with messages, all ranks call
// the same methods in the same order, and one at a time; they may call functions that use messages in between. No
// method allocates.
//
// A collective is a row of rounds, which all ranks count. Every rank has a few slots, used in turn, round by round;
// a slot is a word, with room for little data beside it, and room for more elsewhere. In a round a rank puts data
// into its slot and publishes the round's number in the slot's word; others wait for that and take the data. Nobody
// waits after a round until the others have taken its data. Instead a rank makes sure, before it writes a slot
// again, that all have ended the round for which it wrote it before; mostly it knows already, since a round in
// which all waited for all tells that all had ended the one before (see begin).
//
// There are two ways for all to wait for all (see meet). Where each rank has a core, each looks at the slots of all
// others, and time goes by in the way of a cache line from one core to another. Where ranks share cores, it is the
// switches between ranks that take time, and the least possible is that each rank runs once per round: each adds
// one to a counter and gives its core away, and the last one, which sees that it is, does for all what is to be
// done, puts the result into a slot that belongs to no rank, and goes on. So does, on every other core, who came
// last there: those after whom fewer ranks are missing than there are cores keep theirs for a moment, as the missing
// are likely to be running. That saves one switch per core and round, of two where four ranks share two cores.
type Flat struct {
	Shared
	room   int    // bytes of data in a slot
	depth  uint64 // slots of a rank
	round  uint64 // rounds begun
	met    uint64 // the last round in which all waited for all
	counts uint64 // how often all arrived at the counter
	copier shm.Copier
}

const (
	line       = 128        // bytes between words that different ranks write: two cache lines, which are fetched together
	inline     = line - 16  // data up to this lie beside the word, so that one cache line brings both
	leastRoom  = 4 * kib    // bytes of data in a slot, at least
	mostRoom   = 64 * kib   // and at most: it is taken while the next one is filled
	leastDepth = 2          // slots of a rank
	mostDepth  = 32         // of twice a second-level cache the lines have gone out of both when they are written again
	mostBytes  = 4096 * kib // the data of all slots together
	resultRoom = 8 * kib    // bytes of data in the slot that belongs to no rank
	longFrom   = 4 * kib    // data longer than this are copied as to a core that may be far away
	looks      = 200        // how often to look at a word before waiting in earnest
	moment     = 2000       // the same for who keeps its core until others arrive: about as long as a switch takes
)

// FlatBytes is the memory with which a Flat of some ranks is at its best, and the least with which it works.
func FlatBytes(ranks int) (best, least int) {
	least = fixedBytes(ranks) + ranks*leastDepth*(line+leastRoom)
	best = fixedBytes(ranks) + min(ranks*mostDepth*(line+mostRoom), mostBytes)
	return max(best, least), least
}

// fixedBytes is the counter, the words for ended rounds, and the slots that belong to no rank.
func fixedBytes(ranks int) int { return line + ranks*line + mostDepth*line + resultRoom }

// NewFlat begins to use shared memory, all of it. The ranks need not wait for each other. Memory that has been used
// cannot be used by another Flat. It returns an error if the memory is too small or not aligned, or if the ranks
// are too many.
func NewFlat(s Shared) (*Flat, error) {
	_, least := FlatBytes(s.Size)
	switch {
	case s.Size > leastRoom:
		return nil, fmt.Errorf("coll: %d ranks were to share memory, at most %d can", s.Size, leastRoom)
	case len(s.Mem) < least:
		return nil, fmt.Errorf("coll: %d ranks were given %d bytes to share and need %d", s.Size, len(s.Mem), least)
	case !aligned(s.Mem):
		return nil, fmt.Errorf("coll: shared memory does not begin at a multiple of %d", line)
	}
	each := (len(s.Mem) - fixedBytes(s.Size)) / s.Size
	room := min(each/leastDepth-line, mostRoom) / line * line
	return &Flat{Shared: s, room: room, depth: uint64(min(each/(line+room), mostDepth))}, nil
}

// The memory is: the counter, a word per rank for the rounds it has ended, all slots' words with the data beside
// them, and all slots' data. The slots that belong to no rank follow those of the last rank, as if they were of
// rank Size, except that their data come first and are in common.

// arrived is the counter of arrivals.
func (f *Flat) arrived() *uint64 { return word(f.Mem, 0) }

// ended is the word in which a rank tells the last round it has ended.
func (f *Flat) ended(rank int) *uint64 { return word(f.Mem, line+rank*line) }

// slot is the number of a rank's slot in this round.
func (f *Flat) slot(rank int) int { return rank*int(f.depth) + int(f.round%f.depth) }

// head is the offset of the word of a rank's slot.
func (f *Flat) head(rank int) int { return line + f.Size*line + f.slot(rank)*line }

// filled is the word in which a rank tells the last round for which its slot has been filled.
func (f *Flat) filled(rank int) *uint64 { return word(f.Mem, f.head(rank)) }

// data is the room for n bytes in a rank's slot.
func (f *Flat) data(rank, n int) []byte {
	var at int
	switch {
	case n <= inline:
		at = f.head(rank) + line - inline
	case rank == f.Size:
		at = fixedBytes(f.Size) + f.Size*int(f.depth)*line - resultRoom
	default:
		at = fixedBytes(f.Size) + f.Size*int(f.depth)*line + f.slot(rank)*f.room
	}
	return f.Mem[at : at+n : at+n]
}

// put copies data into a slot.
func (f *Flat) put(slot, data []byte) {
	if len(data) > longFrom {
		f.copier.Copy(slot, data)
	} else {
		copy(slot, data)
	}
}

// wait returns when a word has reached a value.
func (f *Flat) wait(w *uint64, v uint64) error {
	if !f.Crowded && look(w, v, looks) {
		return nil
	}
	return f.Wait.WaitAtLeast(w, v)
}

// look tells whether a word has reached a value by the last of so many looks.
func look(w *uint64, v uint64, times int) bool {
	for range times {
		if int64(atomic.LoadUint64(w)-v) >= 0 {
			return true
		}
	}
	return false
}

// begin begins a round. This rank's slot may be written when it returns: all have ended the round that had it last.
func (f *Flat) begin() error {
	f.round++
	if f.met+f.depth > f.round || f.round <= f.depth {
		return nil
	}
	for r := range f.Size {
		if r != f.Rank {
			if err := f.wait(f.ended(r), f.round-f.depth); err != nil {
				return err
			}
		}
	}
	return nil
}

// fill tells that this rank's slot has been filled.
func (f *Flat) fill() { f.Wait.Publish(f.filled(f.Rank), f.round) }

// await returns when another rank's slot has been filled.
func (f *Flat) await(rank int) error { return f.wait(f.filled(rank), f.round) }

// awaitAll returns when the slots of all other ranks have been filled.
func (f *Flat) awaitAll() error {
	for r := range f.Size {
		if r != f.Rank {
			if err := f.await(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// end tells that this rank has ended a round in which not all waited for all.
func (f *Flat) end() { f.Wait.Publish(f.ended(f.Rank), f.round) }

// meet returns when all ranks have called it in this round; what they had put into their slots is there.
func (f *Flat) meet() error {
	if !f.Crowded {
		f.fill()
		f.met = f.round
		return f.awaitAll()
	}
	if missing := f.arrive(); missing > 0 {
		return f.pass(missing)
	}
	f.open()
	return nil
}

// arrive counts this rank's arrival and tells how many are missing after it. The last one goes on with open, the others
// with pass.
func (f *Flat) arrive() (missing uint64) {
	f.counts++
	f.met = f.round
	return f.counts*uint64(f.Size) - atomic.AddUint64(f.arrived(), 1)
}

// open lets the others pass.
func (f *Flat) open() { f.Wait.Publish(f.filled(f.Size), f.round) }

// pass waits for the last one, where so many were missing when this rank arrived.
func (f *Flat) pass(missing uint64) error {
	w := f.filled(f.Size)
	if missing < uint64(f.Cores) && look(w, f.round, moment) {
		return nil
	}
	return f.wait(w, f.round)
}

// Prefers tells whether this memory is the better way for a collective of some bytes, counted as [Rule.MaxBytes]
// says. The answer is the same at all ranks.
func (f *Flat) Prefers(c Collective, bytes int) bool {
	return find(c, bytes, f.Size, false, true).Algorithm == InMemory
}

// Barrier returns when every rank has called it.
//
// Cost: one cache line from one core to another; or one run of each rank.
func (f *Flat) Barrier() error {
	if f.Size == 1 {
		return nil
	}
	f.round++ // and no slot is written
	return f.meet()
}
