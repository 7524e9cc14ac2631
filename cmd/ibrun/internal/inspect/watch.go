package inspect

import (
	"sync"
	"time"

	"github.com/ibrun/ibrun/perf"
)

// Watch notes when something of a rank was first seen as it is. It is as exact as it is shown the ranks often. Any goroutine may
// call it.
type Watch struct {
	mu    sync.Mutex
	ranks map[int]*seen
}

// seen is a rank as it was when it was last looked at.
type seen struct {
	calls uint64
	waits map[uint64]time.Time // by sequence number: since when
	same  time.Time            // since when nothing has begun or ended
}

// NewWatch returns one that has seen nothing.
func NewWatch() *Watch { return &Watch{ranks: map[int]*seen{}} }

// See shows what a rank does now. It returns for how long that has been so, and since when the rank has waited in each of its
// current operations, as far as has been seen.
func (w *Watch) See(rank int, p perf.Activity, now time.Time) (quiet time.Duration, waits []time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.ranks[rank]
	if s == nil {
		s = &seen{same: now}
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
		s.same = now
	}
	return max(now.Sub(s.same), 0), waits
}
