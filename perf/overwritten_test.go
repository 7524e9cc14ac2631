//go:build !race

package perf

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
)

// overwrite stores random words in memory until stop is set, as a process that misbehaves could at any time, and counts them. The
// race detector would report that.
func overwrite(memory []byte, seed uint64, stop *atomic.Bool, words *atomic.Int64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	special := []uint64{0, 1, 2, ^uint64(0), 1 << 31, 1 << 63, Histograms, Histograms + 1, magic, traceMagic, layoutBytes}
	for !stop.Load() {
		at := rng.IntN(len(memory) / 8)
		if rng.IntN(2) == 0 {
			at = rng.IntN(4096 / 8) // the head is most of what decides
		}
		v := rng.Uint64() >> rng.IntN(64)
		if rng.IntN(2) == 0 {
			v = special[rng.IntN(len(special))]
		}
		binary.NativeEndian.PutUint64(memory[8*at:], v)
		words.Add(1)
	}
}

// whileOverwritten calls f at least so many times, while other goroutines overwrite memory, until each has stored many words.
func whileOverwritten(memory []byte, calls int, f func(i int)) {
	const least = 100_000 // words
	var stop atomic.Bool
	var all sync.WaitGroup
	var words [2]atomic.Int64
	for i := range words {
		all.Go(func() { overwrite(memory, uint64(i), &stop, &words[i]) })
	}
	defer func() {
		stop.Store(true)
		all.Wait()
	}()
	for i := 0; i < calls || words[0].Load() < least || words[1].Load() < least; i++ {
		f(i)
	}
}

// TestRecordOverwritten: a rank whose page is overwritten continues.
func TestRecordOverwritten(t *testing.T) {
	for _, mode := range []Mode{On, All} {
		memory, r := newPage(t, mode)
		traced := make([]byte, TraceBytes)
		trace, err := NewTrace(traced, Identity{Size: 1})
		if err != nil {
			t.Fatal(err)
		}
		links := []Link{r.Link(2, Shm), r.Link(3, TCP)}
		record := func(i int) {
			op, n := Op(i%int(ops)), 1<<(i%24)
			lane := r.Enter(op, int32(i), int32(i), n)
			r.End(op, n, r.Begin(op, n))
			r.Leave(lane)
			link := &links[i%2]
			link.Out(n)
			link.OutBy(Protocol(i)%Protocols, n)
			link.InBy(Protocol(i)%Protocols, n)
			r.Unexpected(i, n)
			r.Matched(i, 1)
			r.Registered(uint64(i), n)
			trace.Sent(1, 2, 3, uint32(i), n)
		}
		whileOverwritten(memory, 100_000, record)
		r.Trace(trace, func() int64 { return 1 })
		whileOverwritten(traced, 100_000, record)
		for i := range memory { // a histogram that does not exist, in every cell
			memory[i] = 0xff
		}
		for i := range 1000 {
			record(i)
		}
		r.Joined()
		r.Finish()
	}
}

// TestReadOverwritten: a reader of a page that is overwritten meanwhile gets an error or a valid snapshot.
func TestReadOverwritten(t *testing.T) {
	memory, r := newPage(t, All)
	whileOverwritten(memory, 3000, func(i int) {
		r.End(Send, i, r.Begin(Send, i))
		p := r.Page()
		p.Activity()
		if id := p.Identity(); id != (Identity{}) && (id.Rank < 0 || id.Rank >= id.Size) {
			t.Fatalf("%+v", id)
		}
		if _, err := Open(memory); err == nil {
			set(&p.l.magic, magic)
		}
		set(&p.l.state, uint64(Running)) // so that some snapshots succeed
		set(&p.l.rank, 0)
		set(&p.l.size, 4)
		s, err := p.Snapshot()
		if err != nil {
			return
		}
		for _, o := range s.Ops {
			o.Latency.Quantile(0.5)
		}
		for _, peer := range s.Peers {
			if peer.Rank >= s.Size || peer.Transport >= Transports {
				t.Fatalf("%+v", peer)
			}
		}
		MergeClasses(MergeOps(s, s))
		MergeTraffic(s, s)
	})
}

// TestReadTraceOverwritten is TestReadOverwritten for a trace.
func TestReadTraceOverwritten(t *testing.T) {
	traced := make([]byte, TraceBytes)
	if _, err := NewTrace(traced, Identity{Size: 4}); err != nil {
		t.Fatal(err)
	}
	whileOverwritten(traced, 1000, func(i int) {
		binary.NativeEndian.PutUint64(traced[8:], traceVersion)
		binary.NativeEndian.PutUint64(traced[0:], traceMagic)
		binary.NativeEndian.PutUint64(traced[16:], 0)
		binary.NativeEndian.PutUint64(traced[24:], 4)
		if n := TraceUsed(traced); n < 0 || n > TraceBytes {
			t.Fatalf("%d bytes used", n)
		}
		if rec, err := ReadTrace(traced[:TraceUsed(traced)]); err == nil && len(rec.Events) > TraceEvents {
			t.Fatalf("%d events", len(rec.Events))
		}
	})
}
