// Package pollyield keeps a goroutine that polls from being stopped by the runtime.
//
// A goroutine that has had its processor for ten milliseconds is stopped by a signal of the runtime's (runtime/proc.go, retake).
// On a real machine that costs some microseconds. An emulated one forgets its translations of addresses with every signal, which
// made the mean time of a short MPI message 5 and 12 % longer in two guests. So whoever waits often steps aside before it comes
// to that: every few milliseconds, where nothing waits for it.
package pollyield

import "time"

const (
	interval = 4 * time.Millisecond // from one to the next, about
	fewest   = 1                    // polls between two
	most     = 1 << 24
	growth   = 16 // at once, as one short time may be chance
)

// Timer tells when it is time to step aside, by the number of polls, since the clock is dear. How many make one due depends on
// how long a poll takes, and is found by looking at the clock when one is taken. The zero Breath is ready. Its methods are called
// by one goroutine at a time.
type Timer struct {
	polls, enough uint
	last          time.Time
}

// Poll counts a poll.
func (b *Timer) Poll() { b.polls++ }

// Due tells whether it is time.
func (b *Timer) Due() bool { return b.polls > b.enough }

// Reset begins the time to the next one. The caller steps aside then, by runtime.Gosched.
func (b *Timer) Reset() {
	now := time.Now()
	b.adapt(now.Sub(b.last))
	b.last, b.polls = now, 0
}

// adapt makes it more or fewer polls if the last ones took so long.
func (b *Timer) adapt(since time.Duration) {
	if since >= interval/2 && since <= 2*interval {
		return
	}
	enough := float64(b.enough) * min(float64(interval)/float64(since), growth)
	b.enough = uint(min(max(enough, fewest), most))
}
