package rdma

import (
	"math"
	"time"
)

// clock decides when timers have expired, mostly without reading the system clock. In some virtual machines the system clock is
// a device, and reading it takes longer than everything else that a Poll does. So it is read about every clockInterval, which
// is precise enough for all timers: the clock estimates from earlier intervals how many Polls that takes. The number of Polls
// between two reads is limited, for programs that call Poll rarely. If the time between Polls was longer than rareInterval on
// average, each Poll reads the clock and does all other work, until a Poll is fast again. Without that, a connection would need
// dozens of Polls to break, and running would count only a fraction of the time. The first such read comes only after the number
// of Polls that was estimated before.
type clock struct {
	polls  uint          // Polls so far, and calls of progressAll
	readAt uint          // value of polls at which the system clock is read next
	stride uint          // polls between two reads
	now    time.Duration // time since start at the last read
	next   time.Duration // when the next timer expires, or never
	start  time.Time

	ran   time.Duration // see running
	ranAt time.Duration // when running was called last
}

const (
	clockInterval = 250 * time.Microsecond
	rareInterval  = 4 * clockInterval // Polls are rare if the mean time between them is longer
	minStride     = 64
	maxStride     = 1024
	never         = time.Duration(math.MaxInt64)
)

// due reports whether the system clock is to be read.
func (c *clock) due() bool { return c.polls >= c.readAt }

// rare reports whether Polls were rare at the last read, so that the next Poll reads the system clock as well.
func (c *clock) rare() bool { return c.stride == 1 }

// elapsed returns the time since start. It reads the system clock.
func (c *clock) elapsed() time.Duration { return time.Since(c.start) }

// running returns for how long this process has run since start; now is the time since start. Of the time between two calls, at
// most this much counts: the process may have been stopped, or its machine suspended.
func (c *clock) running(now, most time.Duration) time.Duration {
	c.ran += min(now-c.ranAt, most)
	c.ranAt = now
	return c.ran
}

// read reads the system clock, and decides when to read it next.
func (c *clock) read() time.Duration {
	now := c.elapsed()
	c.stride = nextStride(c.stride, now-c.now)
	c.now, c.readAt = now, c.polls+c.stride
	return now
}

// nextStride returns the number of Polls until the clock is read again. stride is what it returned when the clock was read last,
// and since is the time that has passed since then.
func nextStride(stride uint, since time.Duration) uint {
	switch {
	case since > time.Duration(max(stride, 1))*rareInterval:
		return 1 // until a Poll comes less than clockInterval after the one before
	case since < clockInterval:
		return min(max(2*stride, minStride), maxStride)
	case since > rareInterval:
		return minStride
	}
	return stride
}

// schedule makes the next timer expire at this time at the latest.
func (c *clock) schedule(at time.Duration) { c.next = min(c.next, at) }

// tick runs the timers that have expired. It returns the error of a lost device.
func (d *domain) tick(now time.Duration) error {
	d.clock.running(now, d.liveness.interval)
	if now < d.clock.next {
		return nil
	}
	d.clock.next = never
	if d.cm.failed {
		if d.cm.refusal = d.cm.recover(d.rails[0]); d.cm.refusal != nil {
			d.clock.schedule(now + maxREQInterval) // the link is still down
		}
	}
	if len(d.cm.closing.all) > 0 {
		d.clock.schedule(d.cm.closing.stepAt)
	}
	d.runConnectTimers(now)
	return d.keepaliveTick(now)
}
