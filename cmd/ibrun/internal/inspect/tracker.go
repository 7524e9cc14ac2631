package inspect

import (
	"sync"
	"time"

	"github.com/ibrun/ibrun/perf"
)

// StateTracker records since when ranks have been in their current state. It is as exact as the samples are frequent. Its methods
// may be called from any goroutine.
type StateTracker struct {
	mu    sync.Mutex
	ranks map[int]*observedState
}

// observedState is the state of a rank in its latest sample.
type observedState struct {
	calls          uint64
	waits          map[uint64]time.Time // by sequence number: when it was first seen
	unchangedSince time.Time            // since when no operation has begun or ended
}

// NewStateTracker returns a tracker without samples.
func NewStateTracker() *StateTracker { return &StateTracker{ranks: map[int]*observedState{}} }

// Observe adds a sample of a rank. It returns how long the rank has begun and ended no operation, and how long it has waited in
// each of its current operations, as far as samples have seen it.
func (w *StateTracker) Observe(rank int, p perf.Activity, now time.Time) (quiet time.Duration, waits []time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.ranks[rank]
	if s == nil {
		s = &observedState{unchangedSince: now}
		w.ranks[rank] = s
	}
	changed := p.Calls != s.calls || len(p.Current) != len(s.waits)
	old := s.waits
	s.calls, s.waits = p.Calls, make(map[uint64]time.Time, len(p.Current))
	for _, c := range p.Current {
		since, known := old[c.Seq]
		if !known {
			since, changed = now, true
		}
		s.waits[c.Seq] = since
		waits = append(waits, max(now.Sub(since), 0))
	}
	if changed {
		s.unchangedSince = now
	}
	return max(now.Sub(s.unchangedSince), 0), waits
}
