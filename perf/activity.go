package perf

import "sync/atomic"

// Activity is the part of a page that shows whether its rank makes progress. Reading it takes about a microsecond, so it can be
// sampled often.
type Activity struct {
	// Calls is the number of operations that have ended so far.
	Calls uint64
	// Current are the operations in progress, by Lane.
	Current []Current
	// Done of Total is the program's own progress; Total is 0 if it reports none.
	Done, Total uint64
}

// Activity reads the activity of the rank.
func (p *Page) Activity() Activity {
	l := p.l
	v := Activity{Current: l.waits(), Done: atomic.LoadUint64(&l.done), Total: atomic.LoadUint64(&l.total)}
	for op := NoOp + 1; op < ops; op++ {
		for class := range l.cells[op] {
			v.Calls += atomic.LoadUint64(&l.cells[op][class].calls)
		}
	}
	return v
}

// Activity is that of the moment of the snapshot.
func (s *Snapshot) Activity() Activity {
	calls, _ := s.Calls()
	return Activity{calls, s.Current, s.Done, s.Total}
}

// waits reads the operations in progress.
func (l *layout) waits() (all []Current) {
	for i := range l.current {
		if c, name, ok := l.current[i].read(); ok {
			c.Lane = i
			c.Where = l.places[i].of(c.Seq)
			c.Comm = l.names.read(name)
			all = append(all, c)
		}
	}
	return all
}
