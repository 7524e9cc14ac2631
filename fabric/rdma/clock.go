package rdma

import (
	"math"
	"time"
)

// clock decides when timers have expired, mostly without reading the system clock. In some virtual machines the system clock is
// a device, and reading it takes longer than everything else that a Poll does. So it is read about every clockInterval, which
// is precise enough for all timers: the clock estimates from earlier intervals how many Polls that takes. The number of Polls
// between two reads is limited, for programs that call Poll rarely.
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
	minStride     = 64
	maxStride     = 1024
	never         = time.Duration(math.MaxInt64)
)

// due reports whether the system clock is to be read.
func (c *clock) due() bool { return c.polls >= c.readAt }

// elapsed returns the time since start. It reads the system clock.
func (c *clock) elapsed() time.Duration { return time.Since(c.start) }

// running returns for how long this process has run since start, if now is the time since start. Time in which it did not Poll
// counts as most: the process may have been stopped, or its machine suspended.
func (c *clock) running(now, most time.Duration) time.Duration {
	c.ran += min(now-c.ranAt, most)
	c.ranAt = now
	return c.ran
}

// read reads the system clock, and decides when to read it next.
func (c *clock) read() time.Duration {
	now := c.elapsed()
	switch since := now - c.now; {
	case since < clockInterval:
		c.stride = min(max(2*c.stride, minStride), maxStride)
	case since > 4*clockInterval:
		c.stride = minStride
	}
	c.now, c.readAt = now, c.polls+c.stride
	return now
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
