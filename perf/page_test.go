package perf

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

// newPage returns memory and its recorder.
func newPage(t testing.TB, mode Mode) ([]byte, *Recorder) {
	t.Helper()
	memory := make([]byte, PageBytes)
	r, err := NewRecorder(memory, Identity{Rank: 1, Size: 4, PID: 77}, mode)
	if err != nil {
		t.Fatal(err)
	}
	return memory, r
}

func snapshot(t testing.TB, memory []byte) *Snapshot {
	t.Helper()
	p, err := Open(memory)
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSnapshotTellsWhatWasRecorded(t *testing.T) {
	memory, r := newPage(t, On)
	for range 3 {
		r.End(Send, 8, r.Begin(Send, 8))
	}
	r.End(Recv, 100000, r.Begin(Recv, 1<<20))
	two, three := r.Link(2, Shm), r.Link(3, TCP)
	two.Out(8)
	two.Out(8)
	two.In(1)
	three.OutBy(Read, 100000)
	three.OutBy(Parts, 1<<16)
	three.InBy(Eager, 5)
	lane := r.Enter(Allreduce, 3, -5, 64)
	r.Unexpected(2, 1000)
	r.Unexpected(1, 400)
	r.Matched(3, 1)
	r.Registered(7, 1<<20)
	r.Retransmitted(9)
	r.Reconnected(11, 12)
	r.Begun()
	r.Begun()
	r.Ended()
	r.Progress(10, 100)

	s := snapshot(t, memory)
	if s.Identity != (Identity{1, 4, 77}) || s.State != Running || s.Began.IsZero() || !s.Ended.IsZero() {
		t.Errorf("head: %+v", s)
	}
	if len(s.Ops) != 2 || s.Ops[0].Op != Send || s.Ops[0].Calls != 3 || s.Ops[0].Bytes != 24 || s.Ops[0].Latency.Count() != 3 ||
		s.Ops[1].Op != Recv || s.Ops[1].Class != ClassOf(100000) || s.Ops[1].Latency.Count() != 1 {
		t.Errorf("operations: %+v", s.Ops)
	}
	wantPeers := []Peer{{2, Shm, Volume{2, 16}, Volume{1, 1}}, {3, TCP, Volume{2, 165536}, Volume{1, 5}}}
	if !slices.Equal(s.Peers, wantPeers) {
		t.Errorf("peers: %+v, want %+v", s.Peers, wantPeers)
	}
	wantTraffic := []Traffic{{Out, Shm, Eager, Volume{2, 16}}, {Out, TCP, Parts, Volume{1, 65536}},
		{Out, TCP, Read, Volume{1, 100000}},
		{In, Shm, Eager, Volume{1, 1}}, {In, TCP, Eager, Volume{1, 5}}}
	wantLong := []LongTraffic{{TCP, Parts, 1 << 16, Volume{1, 65536}}, {TCP, Read, 1 << 17, Volume{1, 100000}}}
	if !slices.Equal(s.Traffic, wantTraffic) {
		t.Errorf("traffic: %+v, want %+v", s.Traffic, wantTraffic)
	}
	if !slices.Equal(s.Long, wantLong) {
		t.Errorf("long messages: %+v, want %+v", s.Long, wantLong)
	}
	if want := []Current{{Seq: 1, Op: Allreduce, Peer: 3, Tag: -1, Bytes: 64}}; !slices.Equal(s.Current, want) {
		t.Errorf("current: %+v, want %+v", s.Current, want)
	}
	if s.Queues != (Queues{1, 2, 400, 1000, 3, 3, 1, 4}) || s.Memory != (Memory{7, 1 << 20, 1 << 20}) ||
		s.Retransmissions != 9 || s.Reconnections != 11 || s.Changes != 12 || s.Done != 10 || s.Total != 100 {
		t.Errorf("gauges: %+v", s)
	}
	if s.Sent != 2+2 || s.Arrived != 2+1 || s.Paused { // eager messages, and others
		t.Errorf("%d messages were sent, %d have arrived", s.Sent, s.Arrived)
	}
	if r.Paused(); !snapshot(t, memory).Paused {
		t.Error("it is not recorded that counting has paused")
	}
	r.Leave(lane)
	r.Waited(r.Now() - 1000000)
	r.Joined()
	r.Waited(r.Now() - 1000000)
	r.Finish()
	if s := snapshot(t, memory); len(s.Current) != 0 || s.State != Finalized || s.Ended.IsZero() || s.Joined.Before(s.Began) ||
		s.Joining == 0 || s.Joining >= s.Waiting || s.Wall(time.Time{}) != s.Ended.Sub(s.Joined) {
		t.Errorf("at the end: %+v", s)
	}
}

func TestOffRecordsNothing(t *testing.T) {
	memory, r := newPage(t, Off)
	r.End(Send, 8, r.Begin(Send, 8))
	link := r.Link(1, Shm)
	link.Out(1)
	link.InBy(Read, 1)
	r.Leave(r.Enter(Recv, 1, 1, 1))
	r.Waited(r.Now())
	r.Unexpected(1, 1)
	r.Matched(1, 1)
	r.Registered(1, 1)
	r.Retransmitted(1)
	r.Begun()
	r.Ended()
	r.Paused()
	r.Progress(1, 1)
	r.Joined()
	r.Finish()
	if _, err := Open(memory); !errors.Is(err, ErrEmpty) {
		t.Errorf("got %v, want %v", err, ErrEmpty)
	}
}

// TestSampled: counts are exact, and the histogram counts all calls except those after the last timed one.
func TestSampled(t *testing.T) {
	for _, mode := range []Mode{On, All} {
		memory, r := newPage(t, mode)
		want := uint64(0)
		for calls := 1; calls <= 40*sampleEvery; calls++ {
			start := r.Begin(Send, 8)
			if r.End(Send, 8, start); start != 0 {
				want = uint64(calls)
			}
			r.End(Isend, AlwaysTimed, r.Begin(Isend, AlwaysTimed))
			s := snapshot(t, memory)
			if mode == All && want != uint64(calls) || calls <= sampleEvery && want != uint64(calls) || uint64(calls)-want >= maxGap {
				t.Fatalf("%v, %d calls: the last one that was timed is %d", mode, calls, want)
			}
			if s.Ops[0].Calls != uint64(calls) || s.Ops[0].Latency.Count() != want {
				t.Fatalf("%v, %d calls: %d counted, %d in the histogram, want %d",
					mode, calls, s.Ops[0].Calls, s.Ops[0].Latency.Count(), want)
			}
			if got := s.Ops[1].Latency.Count(); got != uint64(calls) {
				t.Fatalf("%v, %d long calls: %d in the histogram", mode, calls, got)
			}
		}
	}
}

// TestSampledPeriod: if calls repeat with a period, each of a period is timed about as often as the others.
func TestSampledPeriod(t *testing.T) {
	for _, period := range []int{2, 3, 4, 8, 16, 31, 32, 33, 64} {
		_, r := newPage(t, On)
		const calls = 200_000
		timed, all := make([]int, period), 0
		for call := range calls {
			start := r.Begin(Send, 8)
			if r.End(Send, 8, start); start != 0 {
				timed[call%period]++
				all++
			}
		}
		if all < calls/sampleEvery*9/10 || all > calls/sampleEvery*11/10 {
			t.Errorf("%d of %d calls are timed", all, calls)
		}
		if least, most := slices.Min(timed), slices.Max(timed); least*2 < most {
			t.Errorf("period %d: the calls of a period are timed %v times", period, timed)
		}
	}
}

// TestDue: Due returns true if and only if Begin times the operation, in every mode; operations that are not counted are never
// timed.
func TestDue(t *testing.T) {
	for _, mode := range []Mode{Off, On, All} {
		_, r := newPage(t, mode)
		for i := range 1 << 8 {
			op := Op(i)
			timed := 0
			for call := range 4 * sampleEvery {
				n := []int{0, 8, AlwaysTimed - 1, AlwaysTimed, 8}[call%5]
				due := r.Due(op, n)
				start := r.Begin(op, n)
				if due != (start != 0) {
					t.Fatalf("%v, op %d, call %d of %d bytes: due %v, begun at %d", mode, i, call, n, due, start)
				}
				if n == AlwaysTimed && due != (mode != Off && op.counted()) {
					t.Fatalf("%v, op %d, %d bytes: due %v", mode, i, n, due)
				}
				if due {
					timed++
				}
				r.End(op, n, start)
			}
			all := timed == 4*sampleEvery
			if never := mode == Off || op == NoOp || op.IsWithin(); never != (timed == 0) || all != (!never && mode == All) {
				t.Errorf("%v, op %d: timed %d times", mode, i, timed)
			}
		}
	}
}

// TestDueOnce: if several goroutines begin the same operation concurrently, one of them is timed with the weight of the others.
func TestDueOnce(t *testing.T) {
	_, r := newPage(t, On)
	for calls := 0; r.sampling[Send].threshold != timeNextWeighted; calls++ {
		if r.End(Send, 8, r.Begin(Send, 8)); calls == 4*sampleEvery {
			t.Fatalf("after %d calls none is to stand for many", calls)
		}
	}
	if !r.Due(Send, 0) || r.Begin(Send, 8) == 0 {
		t.Error("the first is not timed")
	}
	if r.Due(Send, 8) || r.Begin(Send, 8) != 0 {
		t.Error("the second is")
	}
	if r.begin(Send, 8) != 0 { // it was due when it was asked
		t.Error("one that began at the same time is, too")
	}
	if !r.Due(Send, AlwaysTimed) {
		t.Error("a long one is not")
	}
}

func TestManyPeersShareARow(t *testing.T) {
	memory := make([]byte, PageBytes)
	r, err := NewRecorder(memory, Identity{Size: 2 * PeerRows}, On)
	if err != nil {
		t.Fatal(err)
	}
	for peer := range 2 * PeerRows {
		link := r.Link(peer, RDMA)
		link.Out(10)
		link.InBy(Copied, 100)
	}
	s := snapshot(t, memory)
	want := Peer{-1, RDMA, Volume{PeerRows, 10 * PeerRows}, Volume{PeerRows, 100 * PeerRows}}
	if len(s.Peers) != PeerRows+1 || s.Peers[0] != want || s.Peers[PeerRows].Rank != PeerRows-1 {
		t.Errorf("%d rows, the first %+v, want %+v", len(s.Peers), s.Peers[0], want)
	}
	if s.Traffic[0] != (Traffic{Out, RDMA, Eager, Volume{2 * PeerRows, 20 * PeerRows}}) {
		t.Errorf("traffic %+v", s.Traffic)
	}
}

func TestHistogramsUsedUp(t *testing.T) {
	memory, r := newPage(t, On)
	for i := range Histograms + 5 {
		op, n := Op(1+i/Classes), 1<<(3*(i%Classes)+6)
		r.End(op, n, r.Begin(op, n))
	}
	s := snapshot(t, memory)
	calls, _ := s.Calls()
	if last := s.Ops[len(s.Ops)-1]; calls != Histograms+5 || s.WithoutHistogram != 5 || last.Latency != nil || last.Calls != 1 {
		t.Errorf("%d calls, %d untold, the last %+v", calls, s.WithoutHistogram, last)
	}
}

func TestLanes(t *testing.T) {
	memory, r := newPage(t, On)
	var lanes []Lane
	for i := range Lanes + 1 {
		lanes = append(lanes, r.Enter(Recv, int32(i), int32(i), i))
	}
	if got := len(snapshot(t, memory).Current); got != Lanes || lanes[Lanes] != -1 {
		t.Errorf("%d shown, lanes %v", got, lanes)
	}
	r.Leave(lanes[Lanes])
	r.Leave(lanes[3])
	if again := r.Enter(Wait, -1, -1, 0); again != lanes[3] {
		t.Errorf("lane %d is used again, want %d", again, lanes[3])
	}
	if c := snapshot(t, memory).Current[3]; c.Op != Wait || c.Peer != -1 || c.Seq != Lanes+1 {
		t.Errorf("%+v", c)
	}
}

// TestReadWhileWritten: no count decreases or is lost, and no operation is read partially.
func TestReadWhileWritten(t *testing.T) {
	memory, r := newPage(t, On)
	const calls = 200_000
	var writer sync.WaitGroup
	stop := make(chan struct{})
	end := sync.OnceFunc(func() {
		close(stop)
		writer.Wait()
	})
	defer end()
	writer.Go(func() {
		link := r.Link(2, Shm)
		for i := 0; ; i++ {
			select {
			case <-stop:
				if i >= calls {
					return
				}
			default:
			}
			n := i % 1000
			lane := r.Enter(Send, int32(n&3), int32(n), n)
			r.End(Send, n, r.Begin(Send, n))
			link.Out(n)
			r.Leave(lane)
		}
	})
	var before *Snapshot
	for range 1000 {
		s := snapshot(t, memory)
		for _, c := range s.Current {
			if c.Op != Send || c.Peer != c.Tag&3 || c.Bytes != uint64(c.Tag) {
				t.Fatalf("half an operation: %+v", c)
			}
		}
		if before != nil {
			calls, bytes := s.Calls()
			callsBefore, bytesBefore := before.Calls()
			if calls < callsBefore || bytes < bytesBefore {
				t.Fatalf("counts go back: %d and %d after %d and %d", calls, bytes, callsBefore, bytesBefore)
			}
		}
		before = s
	}
	end()
	s := snapshot(t, memory)
	made, bytes := s.Calls()
	if v := s.Traffic[0].Volume; made < calls || v != (Volume{made, bytes}) {
		t.Errorf("%d calls of %d bytes, messages %+v", made, bytes, v)
	}
}

func TestOpenRefuses(t *testing.T) {
	good, _ := newPage(t, On)
	corrupt := func(change func(l *layout)) []byte {
		b := make([]byte, PageBytes)
		copy(b, good)
		change(overlay(b))
		return b
	}
	for name, test := range map[string]struct {
		memory []byte
		want   error
	}{
		"nothing":          {nil, ErrShort},
		"not aligned":      {append(make([]byte, 0, PageBytes+9), good...)[1:PageBytes:PageBytes], ErrShort},
		"not written":      {make([]byte, PageBytes), ErrEmpty},
		"no page":          {corrupt(func(l *layout) { l.magic = 7 }), ErrCorrupt},
		"layout":           {corrupt(func(l *layout) { l.bytes++ }), ErrCorrupt},
		"rank beyond size": {corrupt(func(l *layout) { l.rank = 4 }), ErrCorrupt},
		"no ranks":         {corrupt(func(l *layout) { l.rank, l.size = 0, 0 }), ErrCorrupt},
	} {
		if _, err := Open(test.memory); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
	var version *VersionError
	_, err := Open(corrupt(func(l *layout) { l.version = Version + 1 }))
	if !errors.As(err, &version) || *version != (VersionError{Version + 1, Version}) {
		t.Errorf("another version: %v", err)
	}
	for name, change := range map[string]func(l *layout){
		"state":     func(l *layout) { l.state = 0 },
		"histogram": func(l *layout) { l.cells[Send][0] = cell{calls: 1, histogram: Histograms + 1} },
		"peer":      func(l *layout) { l.peerNames[0] = 5 },
		"transport": func(l *layout) { l.peerNames[0] = 1 | uint64(Transports)<<32 },
	} {
		p, err := Open(corrupt(change))
		if err != nil {
			t.Fatal(err)
		}
		if s, err := p.Snapshot(); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
}

func TestOpenPrefixes(t *testing.T) {
	memory, _ := newPage(t, On)
	for n := 0; n < PageBytes; n += 1 + n/100 {
		if _, err := Open(memory[:n:n]); !errors.Is(err, ErrShort) {
			t.Fatalf("the first %d bytes: %v, want %v", n, err, ErrShort)
		}
	}
	if _, err := Open(memory[: PageBytes-1 : PageBytes-1]); !errors.Is(err, ErrShort) {
		t.Errorf("but the last byte: %v, want %v", err, ErrShort)
	}
}

func TestRecorderRefuses(t *testing.T) {
	memory, _ := newPage(t, On)
	if _, err := NewRecorder(memory, Identity{Size: 1}, On); err == nil {
		t.Error("a page that is in use: no error")
	}
	if _, err := NewRecorder(memory[:100], Identity{Size: 1}, On); !errors.Is(err, ErrShort) {
		t.Errorf("short memory: %v, want %v", err, ErrShort)
	}
}

func TestModeFromEnv(t *testing.T) {
	for text, want := range map[string]Mode{"": On, "on": On, "off": Off, "all": All} {
		if m, err := ModeFromEnv(func(string) string { return text }); m != want || err != nil {
			t.Errorf("%q: %v, %v", text, m, err)
		}
	}
	if _, err := ModeFromEnv(func(string) string { return "yes" }); err == nil {
		t.Error("yes: no error")
	}
}

// FuzzSnapshot reads pages with words that no rank writes.
func FuzzSnapshot(f *testing.F) {
	f.Add(uint64(1), []byte{1})
	f.Add(uint64(2), []byte{0xff, 0x80, 0, 7})
	f.Fuzz(func(t *testing.T, seed uint64, words []byte) {
		memory, r := newPage(t, On)
		for op := range ops {
			r.End(op, int(op), r.Begin(op, int(op)))
		}
		link := r.Link(2, Shm)
		link.Out(1)
		r.Enter(Send, 1, 1, 1)
		rng := rand.New(rand.NewPCG(seed, 0))
		for _, b := range words {
			at := rng.IntN(PageBytes / 8)
			if b&1 != 0 {
				at = rng.IntN(4096 / 8) // the head is most of what decides
			}
			memory[8*at+int(b>>1&7)] = byte(rng.Uint32())
		}
		p, err := Open(memory)
		if err != nil {
			return
		}
		s, err := p.Snapshot()
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatalf("%v is not %v", err, ErrCorrupt)
			}
			return
		}
		for _, o := range s.Ops {
			_ = o.Latency.Quantile(0.99)
		}
		MergeClasses(MergeOps(s, s))
		MergeTraffic(s, s)
		if share := Share(s, s, time.Second); share < 0 || share > 1 {
			t.Fatalf("share %v", share)
		}
		for _, c := range s.Current {
			if c.Bytes >= 1<<48 || c.Tag < -1 {
				t.Fatalf("%+v", c)
			}
		}
	})
}

// TestLong: lengths are in classes of powers of two, and those of several ranks add up.
func TestLong(t *testing.T) {
	memory, r := newPage(t, On)
	link := r.Link(2, Shm)
	var all []LongTraffic
	for class := range lengthClasses {
		high := maxLength(class)
		low := high/2 + 1
		switch {
		case class == 0:
			low = 0
		case high < 0:
			low, high = 1<<(minLengthBits+class-1)+1, 1<<40
		}
		link.OutBy(Shared, low)
		link.OutBy(Shared, high)
		all = append(all, LongTraffic{Shm, Shared, maxLength(class), Volume{2, uint64(low + high)}})
	}
	s := snapshot(t, memory)
	if !slices.Equal(s.Long, all) {
		t.Errorf("%+v, want %+v", s.Long, all)
	}
	for i := range all {
		all[i].Messages *= 2
		all[i].Bytes *= 2
	}
	if sums := MergeLong(s, s); !slices.Equal(sums, all) {
		t.Errorf("%+v, want %+v", sums, all)
	}
}
