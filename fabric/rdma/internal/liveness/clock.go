package liveness

import (
	"context"
	"math"
	"time"
)

// Clock decides when timers have expired, mostly without reading the system clock. In some virtual
// machines the system clock is a device, and reading it takes longer than everything else that a
// Poll does. So it is read about every clockInterval, which is precise enough for all timers: the
// clock estimates from earlier intervals how many Polls that takes. The number of Polls between two
// reads is limited, for programs that call Poll rarely. If the time between Polls was longer than
// rareInterval on average, each Poll reads the clock and does all other work, until a Poll is fast
// again. Without that, a connection would need dozens of Polls to break, and Running would count
// only a fraction of the time. The first such read comes only after the number of Polls that was
// estimated before.
type Clock struct {
	Polls  uint          // Polls so far; the owner counts them
	ReadAt uint          // value of Polls at which the system clock is read next
	Stride uint          // Polls between two reads
	Now    time.Duration // time since Start at the last read
	Next   time.Duration // when the next timer expires, or Never
	// FastPolls is how many of the next Polls may do nothing but receive. The owner counts it down.
	// Code that causes other work sets it to 0, unless Poll finds that work in another way.
	FastPolls int
	Start     time.Time

	Ran   time.Duration // see Running
	ranAt time.Duration // when Running was called last
}

const (
	clockInterval = 250 * time.Microsecond
	rareInterval  = 4 * clockInterval // Polls are rare if the mean time between them is longer
	MinStride     = 64                // the least Clock.Stride, unless Polls are rare
	MaxStride     = 1024              // the largest Clock.Stride
)

// Never is later than every timer.
const Never = time.Duration(math.MaxInt64)

// Due reports whether the system clock is to be read.
func (c *Clock) Due() bool { return c.Polls >= c.ReadAt }

// Rare reports whether Polls were rare at the last read, so that the next Poll reads the system
// clock as well.
func (c *Clock) Rare() bool { return c.Stride == 1 }

// Elapsed returns the time since Start. It reads the system clock.
func (c *Clock) Elapsed() time.Duration { return time.Since(c.Start) }

// Running returns for how long this process has run since Start; now is the time since Start. Of
// the time between two calls, at most this much counts: the process may have been stopped, or its
// machine suspended.
func (c *Clock) Running(now, most time.Duration) time.Duration {
	c.Ran += min(now-c.ranAt, most)
	c.ranAt = now
	return c.Ran
}

// Read reads the system clock, and decides when to read it next.
func (c *Clock) Read() time.Duration {
	now := c.Elapsed()
	c.Stride = nextStride(c.Stride, now-c.Now)
	c.Now, c.ReadAt = now, c.Polls+c.Stride
	return now
}

// nextStride returns the number of Polls until the clock is read again. stride is what it returned
// when the clock was read last, and since is the time that has passed since then.
func nextStride(stride uint, since time.Duration) uint {
	switch {
	case since > time.Duration(max(stride, 1))*rareInterval:
		return 1 // until a Poll comes less than clockInterval after the one before
	case since < clockInterval:
		return min(max(2*stride, MinStride), MaxStride)
	case since > rareInterval:
		return MinStride
	}
	return stride
}

// Schedule makes the next timer expire at this time at the latest.
func (c *Clock) Schedule(at time.Duration) { c.Next = min(c.Next, at) }

// Sleep waits for d. It returns false if the context ends before.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
