// Package pollyield makes a goroutine that polls yield before the runtime preempts it.
//
// The runtime preempts a goroutine with a signal when it has had its processor for ten milliseconds (runtime/proc.go, retake). On
// a real machine that takes some microseconds. An emulated machine drops its address translations at every signal, which made the
// mean time of a short MPI message 5 and 12 % longer in two guests. So a goroutine that polls for long yields before that: every
// few milliseconds, at a moment at which nothing waits for it.
package pollyield

import "time"

const (
	interval = 4 * time.Millisecond // approximate time between two yields
	minPolls = 1                    // between two yields
	maxPolls = 1 << 24
	// maxGrowth bounds how much the number of polls grows at once: one short time may be chance.
	maxGrowth = 16
)

// Timer decides when to yield. It counts polls, since reading the clock is expensive. How many polls make a yield due depends on
// the duration of a poll; it is adapted whenever the clock is read, at each yield. The zero Timer is ready to use. Only one
// goroutine may call its methods at a time.
type Timer struct {
	polls, threshold uint
	last             time.Time
}

// Poll counts a poll.
func (t *Timer) Poll() { t.polls++ }

// Polls returns the number of polls since the last Reset.
func (t *Timer) Polls() uint { return t.polls }

// Due reports whether a yield is due.
func (t *Timer) Due() bool { return t.polls > t.threshold }

// Reset starts the time until the next yield. The caller then yields with runtime.Gosched.
func (t *Timer) Reset() {
	now := time.Now()
	t.adapt(now.Sub(t.last))
	t.last, t.polls = now, 0
}

// adapt changes the number of polls between two yields if the last ones took much less or more than interval.
func (t *Timer) adapt(since time.Duration) {
	if since >= interval/2 && since <= 2*interval {
		return
	}
	threshold := float64(t.threshold) * min(float64(interval)/float64(since), maxGrowth)
	t.threshold = uint(min(max(threshold, minPolls), maxPolls))
}
