package coll

import (
	"sync/atomic"

	"github.com/ibrun/ibrun/internal/shm"
)

// wait blocks until a word of a rank has reached a value; the word belongs to all ranks if rank is -1.
func (f *Shm) wait(rank int, w *uint64, v uint64) error {
	if !f.Crowded && spin(w, v, spinPolls) {
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
func (f *Shm) beginStep(n int) error {
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
func (f *Shm) publish() { f.publishAt(f.headOffset(f.Rank)) }

// publishAt publishes the word at an offset, with the description of the call beside it.
func (f *Shm) publishAt(head int) {
	*word(f.Mem, head+callOffset) = f.call
	f.Sync.Publish(word(f.Mem, head), f.step)
}

// awaitRank blocks until another rank's slot has been filled. It returns an error if that rank's call differs.
func (f *Shm) awaitRank(rank int) error {
	f.pauseOnce()
	return f.awaitAt(rank, f.headOffset(rank))
}

// pauseOnce pauses before the first poll of a step: most first polls come too early (see spin).
func (f *Shm) pauseOnce() {
	if !f.Crowded {
		shm.Pause()
	}
}

// awaitAt blocks until a rank has published the word at an offset. It returns an error if that rank's call differs.
func (f *Shm) awaitAt(rank, head int) error {
	if err := f.wait(rank, word(f.Mem, head), f.step); err != nil {
		return err
	}
	if other := *word(f.Mem, head+callOffset); other != f.call {
		return f.Sync.Differ(rank, f.call, other)
	}
	return nil
}

// awaitAll blocks until the slots of all other ranks have been filled.
func (f *Shm) awaitAll() error {
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
func (f *Shm) endStep() { f.Sync.Publish(f.endedWord(f.Rank), f.step) }

// synchronize blocks until all ranks have called it in this step. The data that they had copied into their slots can then be
// read.
func (f *Shm) synchronize() error {
	if !f.Crowded {
		f.publishAt(f.headOffset(f.Rank)) // as publish, with one call less
		f.synced = f.step
		return f.awaitAll()
	}
	return f.synchronizeBefore(-1)
}

// synchronizeBefore is synchronize of ranks that share cores. The last one that arrives lets the rank first leave before all
// others, unless first is -1. What first is at the other ranks does not matter.
func (f *Shm) synchronizeBefore(first int) error {
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
func (f *Shm) synchronizeAgain() error {
	if f.Crowded {
		return f.synchronize()
	}
	f.Sync.Publish(f.filledWord(f.Rank), f.step)
	f.synced = f.step
	return f.awaitAll()
}

// arrive counts this rank's arrival and returns how many ranks are missing. The last one then calls release or releaseAfter, the
// others awaitRelease. It returns an error at the last one if the calls of the ranks differ.
func (f *Shm) arrive() (missing uint64, err error) {
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
func (f *Shm) firstMayLeave() uint64 { return 2 * f.step }
func (f *Shm) allMayLeave() uint64   { return 2*f.step + 1 }

// release wakes the ranks in awaitRelease.
func (f *Shm) release() { f.Sync.Publish(f.filledWord(f.Size), f.allMayLeave()) }

// releaseAfter lets another rank leave first, which then calls release. It blocks until that rank has called it.
func (f *Shm) releaseAfter(first int) error {
	head := f.headOffset(f.Size)
	*word(f.Mem, head+callOffset) = uint64(first)
	f.Sync.Publish(word(f.Mem, head), f.firstMayLeave())
	return f.wait(-1, word(f.Mem, head), f.allMayLeave())
}

// awaitRelease blocks until release has been called, or until this rank may leave first: then it calls release. missing is the
// result of arrive.
func (f *Shm) awaitRelease(missing uint64) error {
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
