package perf

import (
	"testing"
	"time"

	"github.com/ibrun/ibrun/internal/alloctest"
)

// TestCounter compares the processor's counter with the system's clock: both measure the same, and neither decreases.
func TestCounter(t *testing.T) {
	ours := newClock()
	twin := clock{base: time.Now()}
	for _, c := range []*clock{&ours, &twin} {
		last := c.now()
		for range 10000 {
			now := c.now()
			if now < last {
				t.Fatalf("%d after %d", now, last)
			}
			last = now
		}
	}
	// An interruption between the two readings of a pair spoils one try, not all.
	var a, b uint64
	for range 50 {
		from, fromTwin := ours.now(), twin.now()
		for twin.since(fromTwin) < uint64(2*time.Millisecond) {
		}
		a, b = ours.since(from), twin.since(fromTwin)
		if d := max(a, b) - min(a, b); d <= b/50 {
			return
		}
	}
	t.Errorf("ours measured %d ns, the twin %d", a, b)
}

func TestSinceNeverNegative(t *testing.T) {
	c := newClock()
	if d := c.since(c.now() + 1<<40); d != 0 {
		t.Errorf("since the future: %d ns", d)
	}
}

func TestAllocs(t *testing.T) {
	_, r := newPage(t, All)
	link := r.Link(1, Shm)
	if n := alloctest.Count(1000, func() {
		lane := r.Enter(Recv, 1, 2, 3)
		r.End(Recv, 8, r.Begin(Recv, 8))
		link.Out(8)
		link.InBy(Read, 1<<20)
		r.Leave(lane)
		r.Unexpected(1, 1)
		r.Matched(1, 1)
		r.Waited(r.Now())
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkSend(b *testing.B) {
	_, r := newPage(b, On)
	link := r.Link(1, Shm)
	for b.Loop() {
		start := r.Begin(Send, 8)
		link.Out(8)
		r.End(Send, 8, start)
	}
}

func BenchmarkRecv(b *testing.B) {
	_, r := newPage(b, On)
	link := r.Link(1, Shm)
	for b.Loop() {
		start := r.Begin(Recv, 8)
		lane := r.Enter(Recv, 1, 2, 8)
		link.In(8)
		r.Leave(lane)
		r.End(Recv, 8, start)
	}
}

func BenchmarkClock(b *testing.B) {
	c := newClock()
	for b.Loop() {
		c.now()
	}
}

func BenchmarkSnapshot(b *testing.B) {
	memory, r := newPage(b, All)
	for i := range 30 {
		op, n := Op(1+i/Classes), 1<<(3*(i%Classes)+6)
		r.End(op, n, r.Begin(op, n))
	}
	p, err := Open(memory)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Snapshot(); err != nil {
			b.Fatal(err)
		}
	}
}
