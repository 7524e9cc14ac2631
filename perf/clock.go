package perf

import (
	"math/bits"
	"time"

	"github.com/ibrun/ibrun/internal/ticks"
)

// clock measures durations. It uses the time-stamp counter of the processor if that runs at a constant rate, because reading it
// takes a fraction of the time of reading the system's clock, and the system's clock otherwise.
type clock struct {
	hz   uint64       // rate of the counter; 0: the system's clock is used
	mult uint64       // nanoseconds per tick, times 1<<32
	base time.Time    // start of the system's clock
	read func() int64 // used instead of both, if it is not nil
}

// Calibration compares two intervals of this length, which must agree to 1/agree.
const (
	calibration = 100 * time.Microsecond
	agree       = 200
)

func newClock() clock {
	c := clock{base: time.Now()}
	if !ticks.Steady() {
		return c
	}
	// An interruption between the two readings of a pair gives a wrong rate, so two consecutive rates must agree.
	last := rate()
	for range 8 {
		hz := rate()
		if diff := max(hz, last) - min(hz, last); hz > 0 && diff < hz/agree {
			c.hz = hz
			c.mult, _ = bits.Div64(uint64(time.Second)>>32, uint64(time.Second)<<32, hz)
			return c
		}
		last = hz
	}
	return c
}

// rate measures the ticks of the counter per second.
func rate() uint64 {
	from, first := time.Now(), ticks.Now()
	for {
		if d := time.Since(from); d >= calibration {
			return uint64(float64(ticks.Now()-first) / d.Seconds())
		}
	}
}

// now returns the time in ticks.
func (c *clock) now() uint64 {
	if c.hz != 0 {
		return ticks.Now()
	}
	if c.read != nil {
		return uint64(c.read())
	}
	return uint64(time.Since(c.base))
}

// since is the time since then in nanoseconds. Counters of different processors may differ by a little: never less than 0.
func (c *clock) since(then uint64) uint64 {
	took := c.now() - then
	if int64(took) < 0 {
		return 0
	}
	if c.hz == 0 {
		return took
	}
	high, low := bits.Mul64(took, c.mult)
	return high<<32 | low>>32
}
