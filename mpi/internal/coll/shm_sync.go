package coll

import "sync/atomic"

// wait blocks until a word of a rank has reached a value; the word belongs to all ranks if rank is -1.
func (f *Shm) wait(rank int, w *uint64, v uint64) error {
	if !f.Crowded && spin(w, v, spinPolls) {
		return nil
	}
	return f.Sync.WaitAtLeast(rank, w, v)
}

// spin polls a word up to polls times, and reports whether it has reached a value.
func spin(w *uint64, v uint64, polls int) bool {
	for range polls {
		if int64(atomic.LoadUint64(w)-v) >= 0 {
			return true
		}
	}
	return false
}

// beginStep begins a step. When it returns, this rank's slot may be written: all have ended the step that used it last.
func (f *Shm) beginStep() error {
	f.step++
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
func (f *Shm) publish() {
	head := f.headOffset(f.Rank)
	*word(f.Mem, head+callOffset) = f.call
	f.Sync.Publish(word(f.Mem, head), f.step)
}

// awaitRank blocks until another rank's slot has been filled. It returns an error if that rank's call differs.
func (f *Shm) awaitRank(rank int) error {
	head := f.headOffset(rank)
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
	for r := range f.Size {
		if r != f.Rank {
			if err := f.awaitRank(r); err != nil {
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
		f.publish()
		f.synced = f.step
		return f.awaitAll()
	}
	missing, err := f.arrive()
	switch {
	case err != nil:
		return err
	case missing > 0:
		return f.awaitRelease(missing)
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

// arrive counts this rank's arrival and returns how many ranks are missing. The last one then calls release, the others
// awaitRelease. It returns an error at the last one if the calls of the ranks differ.
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

// release wakes the ranks in awaitRelease.
func (f *Shm) release() { f.Sync.Publish(f.filledWord(f.Size), f.step) }

// awaitRelease blocks until the last rank calls release. missing is the result of arrive.
func (f *Shm) awaitRelease(missing uint64) error {
	w := f.filledWord(f.Size)
	if missing < uint64(f.Cores) && spin(w, f.step, lastRankPolls) {
		return nil
	}
	return f.wait(-1, w, f.step)
}
