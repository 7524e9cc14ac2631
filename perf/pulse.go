package perf

import "sync/atomic"

// Pulse is the little of a page that tells whether its rank is getting on. It is read in about a microsecond, for whoever looks
// often.
type Pulse struct {
	// Calls is how many operations have ended so far.
	Calls uint64
	// Current are the operations waited in, by Lane.
	Current []Current
	// Done of Total is the program's own progress; Total is 0 if it reports none.
	Done, Total uint64
}

// Pulse reads it.
func (p *Page) Pulse() Pulse {
	l := p.l
	v := Pulse{Current: l.waits(), Done: atomic.LoadUint64(&l.done), Total: atomic.LoadUint64(&l.total)}
	for op := NoOp + 1; op < ops; op++ {
		for class := range l.cells[op] {
			v.Calls += atomic.LoadUint64(&l.cells[op][class].calls)
		}
	}
	return v
}

// Pulse is that of the moment of the snapshot.
func (s *Snapshot) Pulse() Pulse {
	calls, _ := s.Calls()
	return Pulse{calls, s.Current, s.Done, s.Total}
}

// waits reads the operations under way.
func (l *layout) waits() (all []Current) {
	for i := range l.current {
		if c, ok := l.current[i].read(); ok {
			c.Lane = i
			all = append(all, c)
		}
	}
	return all
}
