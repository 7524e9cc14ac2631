package mem_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/fabrictest"
	"github.com/ibrun/ibrun/fabric/mem"
	"github.com/ibrun/ibrun/internal/alloctest"
)

// open opens a domain; it is closed when the test ends.
func open(t testing.TB, hub *mem.Hub, self, n int, wake func()) fabric.Domain {
	t.Helper()
	d, err := hub.Transport().Open(t.Context(), &fabric.Config{Self: self, Size: n, Wake: wake})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func connect(t testing.TB, d fabric.Domain, peer int) fabric.Endpoint {
	t.Helper()
	ep, err := d.Connect(peer, nil)
	if err != nil {
		t.Fatal(err)
	}
	return ep
}

// poll polls until no event is left, with room for size events at a time.
func poll(t testing.TB, d fabric.Domain, size int) []fabric.Event {
	t.Helper()
	var all []fabric.Event
	for {
		evs := make([]fabric.Event, size)
		n, err := d.Poll(evs)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return all
		}
		all = append(all, evs[:n]...)
	}
}

func TestFail(t *testing.T) {
	hub, dead := mem.NewHub(3), errors.New("has panicked")
	var woken [3]int
	var ds [3]fabric.Domain
	for i := range ds {
		ds[i] = open(t, hub, i, 3, func() { woken[i]++ })
	}
	to1, from1 := connect(t, ds[0], 1), connect(t, ds[1], 0)
	if err := from1.Send([]byte("last words"), nil); err != nil {
		t.Fatal(err)
	}
	for i, d := range ds {
		if _, ready, err := d.Arm(); ready != (i == 0) || err != nil {
			t.Fatalf("peer %d: ready %v, %v", i, ready, err)
		}
	}
	hub.Fail(1, dead)
	hub.Fail(1, errors.New("something later"))
	if woken[1] != 1 || woken[2] != 1 {
		t.Errorf("sleeping peers were woken %v times", woken)
	}
	is := func(ev fabric.Event) bool {
		return ev.Kind == fabric.PeerDown && ev.Peer == 1 && errors.Is(ev.Err, dead) && errors.Is(ev.Err, fabric.ErrPeerDown)
	}
	if evs := poll(t, ds[0], 1); len(evs) != 2 || evs[0].Kind != fabric.Message || !is(evs[1]) {
		t.Errorf("peer 0 received %+v", evs)
	}
	if evs := poll(t, ds[2], 1); len(evs) != 1 || !is(evs[0]) {
		t.Errorf("peer 2, never connected, received %+v", evs)
	}
	if err := to1.Send(nil, nil); !errors.Is(err, fabric.ErrPeerDown) || !errors.Is(err, dead) {
		t.Errorf("send: %v", err)
	}
	if _, err := ds[2].Connect(1, nil); !errors.Is(err, fabric.ErrPeerDown) {
		t.Errorf("connect: %v", err)
	}
	if _, err := ds[1].Poll(nil); !errors.Is(err, dead) {
		t.Errorf("the dead peer's own poll: %v", err)
	}
	if _, _, err := ds[1].Arm(); !errors.Is(err, dead) {
		t.Errorf("the dead peer's own arm: %v", err)
	}
}

// TestFailConcurrent: peers that send, receive or sleep while one is declared dead all receive PeerDown, once.
func TestFailConcurrent(t *testing.T) {
	const n = 4
	for range 200 {
		hub, dead := mem.NewHub(n), errors.New("dead")
		var wg sync.WaitGroup
		for self := range n {
			woken := make(chan struct{}, 1)
			d := open(t, hub, self, n, func() {
				select {
				case woken <- struct{}{}:
				default:
				}
			})
			next := connect(t, d, (self+1)%n)
			wg.Go(func() {
				if err := untilDown(d, next, woken); self != 0 && err != nil || self == 0 && !errors.Is(err, dead) {
					t.Errorf("peer %d: %v", self, err)
				}
			})
		}
		hub.Fail(0, dead)
		wg.Wait()
	}
}

// untilDown sends and receives, and sleeps when there is nothing to do, until peer 0 is down. No event of peer 0 may follow.
func untilDown(d fabric.Domain, next fabric.Endpoint, woken <-chan struct{}) error {
	evs, downs := make([]fabric.Event, 4), 0
	for i := 0; ; i++ {
		if err := next.Send([]byte{1}, nil); err != nil && err != fabric.ErrAgain && !errors.Is(err, fabric.ErrPeerDown) {
			return err
		}
		n, err := d.Poll(evs)
		if err != nil {
			return err
		}
		for _, ev := range evs[:n] {
			switch {
			case downs > 0 && ev.Peer == 0:
				return fmt.Errorf("after its end: %+v", ev)
			case ev.Kind == fabric.PeerDown:
				downs++
			}
		}
		if n > 0 {
			continue
		}
		if downs > 0 {
			return nil
		}
		if _, ready, err := d.Arm(); err != nil {
			return err
		} else if !ready {
			<-woken
		}
	}
}

func TestOpen(t *testing.T) {
	hub := mem.NewHub(4)
	open(t, hub, 0, 4, nil)
	hub.Fail(1, errors.New("dead"))
	for what, cfg := range map[string]fabric.Config{
		"twice":       {Self: 0, Size: 4},
		"dead":        {Self: 1, Size: 4},
		"wrong size":  {Self: 2, Size: 3},
		"wrong peer":  {Self: 4, Size: 4},
		"wrong peer-": {Self: -1, Size: 4},
	} {
		if _, err := hub.Transport().Open(t.Context(), &cfg); err == nil {
			t.Errorf("%s: opens", what)
		}
	}
}

// TestFairness: senders are served round-robin, at any position in the bitmap, so one that floods does not starve the others.
func TestFairness(t *testing.T) {
	const n = 130
	senders := []int{0, 1, 63, 64, 127, 128, 129}
	hub := mem.NewHub(n)
	d := open(t, hub, 65, n, nil)
	for _, s := range senders {
		ep := connect(t, open(t, hub, s, n, nil), 65)
		for range 3 {
			if err := ep.Send([]byte{byte(s)}, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	var got []int
	for _, ev := range poll(t, d, 1) {
		got = append(got, int(ev.Peer))
	}
	if want := slices.Concat(senders, senders, senders); !slices.Equal(got, want) {
		t.Errorf("served %v", got)
	}
}

// TestIdleMemory: memory grows with the number of pairs that communicate.
func TestIdleMemory(t *testing.T) {
	const n = 64
	var before, after runtime.MemStats
	measure := func(limit uint64, f func()) {
		t.Helper()
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > limit {
			t.Errorf("allocated %d bytes, at most %d are allowed", took, limit)
		}
	}
	var hub *mem.Hub
	var ds [n]fabric.Domain
	measure(256<<10, func() {
		hub = mem.NewHub(n)
		for i := range ds {
			ds[i] = open(t, hub, i, n, nil)
		}
	})
	var ep fabric.Endpoint
	measure(4<<10, func() { ep = connect(t, ds[0], 1) })
	measure(40<<10, func() {
		if err := ep.Send(nil, nil); err != nil {
			t.Fatal(err)
		}
	})
}

// TestRegisterAllocs: protocols register for every large message, so Register does not allocate either.
func TestRegisterAllocs(t *testing.T) {
	d, b := open(t, mem.NewHub(1), 0, 1, nil), make([]byte, 100)
	var err error
	allocs := alloctest.Count(100, func() {
		r, err1 := d.Register(b)
		err = errors.Join(err, err1, d.Deregister(r))
	})
	if allocs != 0 || err != nil {
		t.Errorf("%v allocations, %v", allocs, err)
	}
}

// TestSegmentTerms: until all peers of a segment have mapped it, all must pass the same arguments.
func TestSegmentTerms(t *testing.T) {
	hub := mem.NewHub(3)
	var ds [3]fabric.SharedMemory
	for i := range ds {
		ds[i] = open(t, hub, i, 3, nil).(fabric.SharedMemory)
	}
	get := func(self int, peers []int, bytes int) (fabric.Segment, error) {
		return ds[self].Segment(1, peers, bytes)
	}
	first, err := get(0, []int{0, 1, 2}, 100)
	if err != nil {
		t.Fatal(err)
	}
	first.Bytes()[0] = 1
	if _, err := get(0, []int{0, 1, 2}, 100); err == nil {
		t.Error("one peer has mapped it twice")
	}
	if _, err := get(1, []int{0, 1, 2}, 200); err == nil {
		t.Error("two peers have mapped it with different sizes")
	}
	if _, err := get(1, []int{0, 1}, 100); err == nil {
		t.Error("two peers have mapped it with different peers")
	}
	second, err := get(1, []int{0, 1, 2}, 100)
	if err != nil || second.Bytes()[0] != 1 {
		t.Fatal("not the same memory, or no memory: ", err)
	}
	hub.Fail(2, errors.New("dead")) // it will not map the segment, so the id is free
	third, err := get(0, []int{0, 1, 2}, 100)
	if err != nil || third.Bytes()[0] != 0 {
		t.Fatal("not new memory, or no memory: ", err)
	}
	for _, s := range []fabric.Segment{first, second, third} {
		if err := s.Close(); err != nil || s.Bytes() != nil {
			t.Errorf("after close: %d bytes, %v", len(s.Bytes()), err)
		}
	}
}

func BenchmarkMem(b *testing.B) { fabrictest.Bench(b, peers) }

// BenchmarkPollIdle measures a Poll without events.
func BenchmarkPollIdle(b *testing.B) {
	for _, n := range []int{2, 64, 1024} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			d := open(b, mem.NewHub(n), 0, n, nil)
			evs := make([]fabric.Event, 16)
			for b.Loop() {
				if _, err := d.Poll(evs); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
