package clocksync

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Clock tells common time by a source. Init makes it ready, and common time then is the source's own. It must not be
// copied.
type Clock struct {
	source   Source
	slew     atomic.Pointer[slew] // nil: that of the source
	residual atomic.Int64
	mu       sync.Mutex // who changes course
}

// slew is the way of a clock: from one moment of its source to another it goes straight from a value to a line, and
// then along the line.
type slew struct {
	from, until int64
	value       int64   // common time at from
	gain        float64 // in each nanosecond between the two, beyond that nanosecond
	line        Line
	previous    *slew // holds until from; nil: nobody asks for that any more
}

// closed stands for a course that is being replaced: whoever reads the clock waits for the new one.
func (k *slew) closed() bool { return k.previous == k }

// Init makes the clock one that shows what the source does.
func (c *Clock) Init(s Source) { c.source = s }

// Source is the source.
func (c *Clock) Source() Source { return c.source }

// Now is the common time in nanoseconds. Any goroutine may call it; none sees it go back.
func (c *Clock) Now() int64 {
	for {
		k := c.slew.Load()
		t := c.source.Now()
		if k == nil {
			return t
		}
		// If the course changed meanwhile then t may be behind its beginning, where the old one does not hold.
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
	return min(k.value+d+int64(k.gain*float64(d)), k.line.Time(k.until)) // rounding must not overtake the line
}

// At is the common time when the source shows t. It is for moments just past, and for a clock that was started.
func (c *Clock) At(t int64) int64 {
	c.mu.Lock() // the course is not being changed
	defer c.mu.Unlock()
	return c.slew.Load().at(t)
}

// Residual is how well the clock's line is known, in nanoseconds; 0 if it has none.
func (c *Clock) Residual() int64 { return c.residual.Load() }

// Start makes the clock follow a line at once. It is for a clock that nobody has read yet.
func (c *Clock) Start(b Correction) {
	l := b.Line
	c.residual.Store(b.Residual)
	c.slew.Store(&slew{from: l.At, until: l.At, value: l.Time(l.At), line: l})
}

// How a clock is corrected: by no more than a part in so many, and not in less time than this.
const (
	slewRatio = 2000
	minSlew   = 10e6
)

// Steer makes a clock that was started take a bend. Clocks that read one source, started alike and took the same bends,
// show the same as long as each bend comes before it begins. One that comes later begins now. Any goroutine may call it.
func (c *Clock) Steer(b Correction) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := *c.slew.Load()
	closed := new(slew)
	closed.previous = closed
	c.slew.Store(closed)
	now := c.source.Now() // behind everything that anybody has read by the old course
	k := &slew{from: max(b.From, old.from, now), line: b.Line, previous: &old}
	k.value = old.at(k.from)
	away := b.Line.Time(k.from) - k.value
	d := max(slewRatio*min(max(away, -away), maxTime/slewRatio), minSlew)
	k.until = k.from + d
	k.gain = max(float64(b.Line.Time(k.until)-k.value-d)/float64(d), -1)
	if old.from <= now {
		old.previous = nil
	}
	c.residual.Store(b.Residual)
	c.slew.Store(k)
}
