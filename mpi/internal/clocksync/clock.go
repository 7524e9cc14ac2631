package clocksync

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Clock returns common time, derived from a source. After Init, common time is the source's own. It must not be
// copied.
type Clock struct {
	source Source
	slew   atomic.Pointer[slew] // nil if common time is the source's own
	mu     sync.Mutex           // held while slew and bound are replaced
	bound  Bound                // of the line
}

// slew maps the time of the source to common time. From one time of the source to another it leads straight from a
// value to a line; after that it follows the line.
type slew struct {
	from, until int64
	value       int64   // common time at from
	gain        float64 // common time gained per nanosecond between from and until
	line        Line
	previous    *slew // used for times before from; nil if those are not read any more
}

// closed reports whether the slew is being replaced: readers of the clock wait for the new one.
func (k *slew) closed() bool { return k.previous == k }

// Init sets the source of the clock.
func (c *Clock) Init(s Source) { c.source = s }

// Source returns the source.
func (c *Clock) Source() Source { return c.source }

// Now returns the common time in nanoseconds. Any goroutine may call it. Its results never decrease, in any
// goroutine.
func (c *Clock) Now() int64 {
	for {
		k := c.slew.Load()
		t := c.source.Now()
		if k == nil {
			return t
		}
		// If the slew has changed meanwhile, t may be after the start of the new one, where the old one does not hold.
		if c.slew.Load() == k && !k.closed() {
			return k.at(t)
		}
		runtime.Gosched()
	}
}

func (k *slew) at(t int64) int64 {
	switch {
	case t >= k.until:
		return k.line.Time(t)
	case t < k.from && k.previous != nil:
		return k.previous.at(t)
	}
	d := t - k.from
	return min(k.value+d+int64(k.gain*float64(d)), k.line.Time(k.until)) // rounding must not exceed the line
}

// At returns the common time at time t of the source, which must be in the recent past. The clock must have been
// started.
func (c *Clock) At(t int64) int64 {
	c.mu.Lock() // so the slew is not being replaced
	defer c.mu.Unlock()
	return c.slew.Load().at(t)
}

// Bound returns the bound of the clock's error now: that of its line, and the distance to the line while the clock approaches
// it. It is zero if common time is the source's own.
func (c *Clock) Bound() Bound {
	c.mu.Lock() // so slew and bound belong together
	defer c.mu.Unlock()
	k := c.slew.Load()
	if k == nil {
		return Bound{}
	}
	t := c.source.Now()
	return Bound{At: t, Error: c.bound.Time(t) + absDiff(k.at(t), k.line.Time(t)), Growth: c.bound.Growth}
}

// Start makes the clock follow a line immediately. It must be called before anything has read the clock.
func (c *Clock) Start(b Correction) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := b.Line
	c.bound = Bound{b.From, b.Error, b.Growth}
	c.slew.Store(&slew{from: l.At, until: l.At, value: l.Time(l.At), line: l})
}

// Limits of a correction: the rate changes by at most 1/slewRatio, and a slew lasts at least minSlew nanoseconds.
const (
	slewRatio = 2000
	minSlew   = 10e6
)

// Steer applies a correction to a clock that was started. Clocks that read the same source, started with the same
// line and applied the same corrections show the same time, provided that each correction arrives before its From.
// One that arrives later begins now. Any goroutine may call it.
func (c *Clock) Steer(b Correction) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := *c.slew.Load()
	closed := new(slew)
	closed.previous = closed
	c.slew.Store(closed)
	now := c.source.Now() // later than every time read by the old slew
	k := &slew{from: max(b.From, old.from, now), line: b.Line, previous: &old}
	k.value = old.at(k.from)
	distance := b.Line.Time(k.from) - k.value
	d := max(slewRatio*min(max(distance, -distance), maxTime/slewRatio), minSlew)
	k.until = k.from + d
	k.gain = max(float64(b.Line.Time(k.until)-k.value-d)/float64(d), -1)
	if old.from <= now {
		old.previous = nil
	}
	c.bound = Bound{b.From, b.Error, b.Growth}
	c.slew.Store(k)
}
