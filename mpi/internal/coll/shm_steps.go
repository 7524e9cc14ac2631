package coll

import (
	"sync/atomic"

	"github.com/ibrun/ibrun/internal/shm"
)

// shmSteps are the steps and slots of a Shm, and the ways in which ranks wait for each other. They
// know nothing of algorithms.
//
// # Steps and slots
//
// A collective is a sequence of steps, which all ranks count. Every rank has a few slots and uses them cyclically, one per step.
// A slot is a word, a description of the call and room for a little data beside it, and room for more elsewhere. In a step a
// rank copies data into its slot and publishes the number of the step in the slot's word; others wait for that number, compare
// the descriptions of their calls, and read the data. No rank waits at the end of a step until the others have read its data.
// Instead, before a rank reuses a slot, it makes sure that all have ended the step for which it used the slot last. Usually it
// knows that already: a step in which all ranks waited for all proves that all had ended the step before (see beginStep).
//
// # Two kinds of barrier
//
// There are two ways for all ranks to wait for all (see synchronize). If each rank has a core, each polls the slots of all
// others, and the cost is the latency of a cache line between cores. If ranks share cores, the cost is that of context
// switches, and the minimum is that each rank runs once per step: each increments a counter and yields its core. The last one,
// which knows from the counter that it is the last, does the common work for all, copies the result into a slot that belongs to
// no rank, and continues; or, in some barriers, lets another rank continue first (see BarrierBefore). A rank after which fewer
// ranks are missing than there are cores polls for a short time before it yields, because the missing ranks are probably running.
// That saves one context switch per core and step, of two if four ranks share two cores.
type shmSteps struct {
	ShmConfig
	slotBytes int            // bytes of data in a slot
	slots     uint64         // slots of a rank
	words     int            // bytes of all words, with the data beside them
	step      uint64         // steps begun
	synced    uint64         // the last step in which all waited for all
	arrivals  uint64         // the counter of arrivals when all ranks have arrived as often as this one
	call      uint64         // the current call, with a hash of the earlier ones
	history   uint64         // hash of the calls up to this one
	allocated slotsAllocated // of this rank's slots
}

// Layout of the memory: the counter of arrivals; a word per rank for the last step that it has ended; the words of all slots,
// with the data beside them; the data of all slots. The slots that belong to no rank follow those of the last rank, as if they
// were those of rank Size, except that their data come first and are common to them. The data are allocated when they are first
// written.

// arrivalCounter returns the counter of arrivals.
func (f *shmSteps) arrivalCounter() *uint64 { return word(f.Mem, 0) }

// endedWord returns the word in which a rank publishes the last step that it has ended.
func (f *shmSteps) endedWord(rank int) *uint64 { return word(f.Mem, line+rank*line) }

// slotIndex returns the number of a rank's slot in a step.
func (f *shmSteps) slotIndex(rank int, step uint64) int { return rank*int(f.slots) + int(step%f.slots) }

// headOffset returns the offset of the word of a rank's slot in this step.
func (f *shmSteps) headOffset(rank int) int { return f.headOffsetIn(rank, f.step) }

// headOffsetIn returns the offset of the word of a rank's slot in a step.
func (f *shmSteps) headOffsetIn(rank int, step uint64) int {
	return line + f.Size*line + f.slotIndex(rank, step)*line
}

// filledWord returns the word in which a rank publishes the last step for which its slot has been filled. The values of the slot
// that belongs to no rank are those of firstMayLeave and allMayLeave.
func (f *shmSteps) filledWord(rank int) *uint64 { return word(f.Mem, f.headOffset(rank)) }

// data returns the room for n bytes in a rank's slot.
func (f *shmSteps) data(rank, n int) []byte {
	var at int
	switch {
	case n <= inlineBytes:
		at = f.headOffset(rank) + line - inlineBytes
	case rank == f.Size:
		at = f.words
	default:
		at = f.words + resultBytes + f.slotIndex(rank, f.step)*f.slotBytes
	}
	return f.Mem[at : at+n : at+n]
}

// wait blocks until a word of a rank has reached a value; the word belongs to all ranks if rank is -1.
func (f *shmSteps) wait(rank int, w *uint64, v uint64) error {
	if !f.Oversubscribed && spin(w, v, spinPolls) {
		return nil
	}
	return f.Sync.WaitAtLeast(rank, w, v)
}

// spin polls a word up to polls times, and reports whether it has reached a value. It pauses after each poll: a poll that comes
// too early fetches the cache line from the rank that is about to write it, which must then fetch it back first.
func spin(w *uint64, v uint64, polls int) bool {
	for range polls {
		if int64(atomic.LoadUint64(w)-v) >= 0 {
			return true
		}
		shm.Pause()
	}
	return false
}

// beginStep begins a step in which this rank has n bytes for others. When it returns, they may be written into its slot: all have
// ended the step that used it last.
func (f *shmSteps) beginStep(n int) error {
	f.step++
	if n > inlineBytes && !f.allocated.has(f.step%f.slots, n) {
		if err := f.allocated.extend(f.step%f.slots, n, f.data(f.Rank, f.slotBytes), f.Allocate); err != nil {
			return err
		}
	}
	if f.synced+f.slots > f.step || f.step <= f.slots {
		return nil
	}
	for r := range f.Size {
		if r != f.Rank {
			if err := f.wait(r, f.endedWord(r), f.step-f.slots); err != nil {
				return err
			}
		}
	}
	return nil
}

// publish publishes that this rank's slot has been filled.
func (f *shmSteps) publish() { f.publishAt(f.headOffset(f.Rank)) }

// publishAt publishes the word at an offset, with the description of the call beside it.
func (f *shmSteps) publishAt(head int) {
	*word(f.Mem, head+callOffset) = f.call
	f.Sync.Publish(word(f.Mem, head), f.step)
}

// awaitRank blocks until another rank's slot has been filled. It returns an error if that rank's call differs.
func (f *shmSteps) awaitRank(rank int) error {
	f.pauseOnce()
	return f.awaitAt(rank, f.headOffset(rank))
}

// pauseOnce pauses before the first poll of a step: most first polls come too early (see spin).
func (f *shmSteps) pauseOnce() {
	if !f.Oversubscribed {
		shm.Pause()
	}
}

// awaitAt blocks until a rank has published the word at an offset. It returns an error if that rank's call differs.
func (f *shmSteps) awaitAt(rank, head int) error {
	if err := f.wait(rank, word(f.Mem, head), f.step); err != nil {
		return err
	}
	if other := *word(f.Mem, head+callOffset); other != f.call {
		return f.Sync.Differ(rank, f.call, other)
	}
	return nil
}

// awaitAll blocks until the slots of all other ranks have been filled.
func (f *shmSteps) awaitAll() error {
	f.pauseOnce()
	for r := range f.Size {
		if r != f.Rank {
			if err := f.awaitAt(r, f.headOffset(r)); err != nil { // as awaitRank, without another pause
				return err
			}
		}
	}
	return nil
}

// endStep publishes that this rank has ended a step in which not all waited for all.
func (f *shmSteps) endStep() { f.Sync.Publish(f.endedWord(f.Rank), f.step) }

// synchronize blocks until all ranks have called it in this step. The data that they had copied into their slots can then be
// read.
func (f *shmSteps) synchronize() error {
	if !f.Oversubscribed {
		f.publishAt(f.headOffset(f.Rank)) // as publish, with one call less
		f.synced = f.step
		return f.awaitAll()
	}
	return f.synchronizeBefore(-1)
}

// synchronizeBefore is synchronize of ranks that share cores. The last one that arrives lets the rank first leave before all
// others, unless first is -1. What first is at the other ranks does not matter.
func (f *shmSteps) synchronizeBefore(first int) error {
	missing, err := f.arrive()
	switch {
	case err != nil:
		return err
	case missing > 0:
		return f.awaitRelease(missing)
	case first >= 0 && first != f.Rank:
		return f.releaseAfter(first)
	}
	f.release()
	return nil
}

// synchronizeAgain synchronizes in a later step that uses the same slots. Others may still read the descriptions of the call
// there, so they are not written again.
func (f *shmSteps) synchronizeAgain() error {
	if f.Oversubscribed {
		return f.synchronize()
	}
	f.Sync.Publish(f.filledWord(f.Rank), f.step)
	f.synced = f.step
	return f.awaitAll()
}

// arrive counts this rank's arrival and returns how many ranks are missing. The last one then calls release or releaseAfter, the
// others awaitRelease. It returns an error at the last one if the calls of the ranks differ.
func (f *shmSteps) arrive() (missing uint64, err error) {
	call, step := f.arrivedCall(f.Rank)
	*call, *step = f.call, f.step
	mine := f.arrival()
	f.arrivals += uint64(f.Size) * mine
	f.synced = f.step
	left := f.arrivals - atomic.AddUint64(f.arrivalCounter(), mine)
	if left != 0 && left<<(64-countBits) == 0 {
		return 0, f.compareArrived()
	}
	return left & (1<<countBits - 1), nil
}

// The word of the slot that belongs to no rank has up to two values in each step: first that the rank may leave whose number is
// beside the word, and then that all may leave. Only releaseAfter publishes the first one.
func (f *shmSteps) firstMayLeave() uint64 { return 2 * f.step }
func (f *shmSteps) allMayLeave() uint64   { return 2*f.step + 1 }

// release wakes the ranks in awaitRelease.
func (f *shmSteps) release() { f.Sync.Publish(f.filledWord(f.Size), f.allMayLeave()) }

// releaseAfter lets another rank leave first, which then calls release. It blocks until that rank has called it.
func (f *shmSteps) releaseAfter(first int) error {
	head := f.headOffset(f.Size)
	*word(f.Mem, head+callOffset) = uint64(first)
	f.Sync.Publish(word(f.Mem, head), f.firstMayLeave())
	return f.wait(-1, word(f.Mem, head), f.allMayLeave())
}

// awaitRelease blocks until release has been called, or until this rank may leave first: then it calls release. missing is the
// result of arrive.
func (f *shmSteps) awaitRelease(missing uint64) error {
	head := f.headOffset(f.Size)
	w := word(f.Mem, head)
	if missing >= uint64(f.Cores) || !spin(w, f.firstMayLeave(), lastRankPolls) {
		if err := f.wait(-1, w, f.firstMayLeave()); err != nil {
			return err
		}
	}
	switch {
	case int64(atomic.LoadUint64(w)-f.allMayLeave()) >= 0:
		return nil
	case *word(f.Mem, head+callOffset) == uint64(f.Rank):
		f.release()
		return nil
	}
	return f.wait(-1, w, f.allMayLeave())
}
