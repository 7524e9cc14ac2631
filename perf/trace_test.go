package perf

import (
	"errors"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/internal/alloctest"
)

// newTrace returns memory, its trace, and a recorder that writes the trace with a clock that advances by 10 at each reading.
func newTrace(t testing.TB) ([]byte, *Trace, *Recorder) {
	t.Helper()
	memory := make([]byte, TraceBytes)
	tr, err := NewTrace(memory, Identity{Rank: 1, Size: 4})
	if err != nil {
		t.Fatal(err)
	}
	_, r := newPage(t, All)
	now := int64(1000)
	r.Trace(tr, func() int64 { now += 10; return now })
	return memory, tr, r
}

// TestTrace: a trace holds operations and messages with their data, and of more events than fit, the latest ones.
func TestTrace(t *testing.T) {
	memory, tr, r := newTrace(t)
	began := r.Begin(Send, 8)
	tr.Sent(2, 7, 5, 1, 8)
	r.SetPeer(2, 7)
	r.End(Send, 8, began)
	began = r.Begin(Barrier, 0)
	r.SetName(r.Name("ocean"))
	r.End(Barrier, 0, began)
	tr.Matched(3, 9, 5, 1<<31, 1<<40)
	r.End(Send.Within(), 8, r.Begin(Send.Within(), 8))
	got, err := ReadTrace(memory[:TraceUsed(memory)])
	if err != nil {
		t.Fatal(err)
	}
	want := []Event{ // operations begin at multiples of 4, and the histograms look at the clock as well
		{Kind: Sent, At: 1020, Until: 1020, Peer: 2, Tag: 7, Bytes: 8, Context: 5, Number: 1},
		{Kind: Operation, Op: Send, At: 1008, Until: 1030, Peer: 2, Tag: 7, Bytes: 8},
		{Kind: Operation, Op: Barrier, At: 1048, Until: 1060, Peer: -1, Tag: -1, Comm: "ocean"},
		{Kind: Matched, At: 1080, Until: 1080, Peer: 3, Tag: 9, Bytes: 1 << 40, Context: 5, Number: 1 << 31},
	}
	if got.Rank != 1 || got.Size != 4 || got.Lost != 0 || len(got.Events) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i := range want {
		if got.Events[i] != want[i] {
			t.Errorf("event %d: %+v, want %+v", i, got.Events[i], want[i])
		}
	}
	if got.Sort(); got.Events[0].Op != Send {
		t.Errorf("the first is %+v", got.Events[0])
	}

	for i := range uint32(TraceEvents) {
		tr.Sent(0, 0, 0, i, 0)
	}
	got, err = ReadTrace(memory)
	if err != nil || got.Lost != 5 || len(got.Events) != TraceEvents-1 || got.Events[0].Number != 1 {
		t.Errorf("%d events, %d lost, %v", len(got.Events), got.Lost, err)
	}
}

// TestTraceSpan: collectives in progress and their steps are in the trace; without a trace nothing happens.
func TestTraceSpan(t *testing.T) {
	memory, _, r := newTrace(t)
	began := r.TraceTime()
	step := r.TraceTime()
	r.Span(Step, Iallreduce, step, 7, 100)
	r.SetName(r.Name("ocean"))
	r.Span(InProgress, Iallreduce, began, 7, 0)
	got, err := ReadTrace(memory)
	want := []Event{
		{Kind: Step, Op: Iallreduce, At: int64(step), Until: 1030, Peer: -1, Tag: 7, Bytes: 100},
		{Kind: InProgress, Op: Iallreduce, At: int64(began), Until: 1040, Peer: -1, Tag: 7, Comm: "ocean"},
	}
	if err != nil || !slices.Equal(got.Events, want) {
		t.Errorf("%v, %+v, want %+v", err, got, want)
	}
	_, alone := newPage(t, All)
	var none *Recorder
	alone.Span(Step, Iallreduce, alone.TraceTime(), 0, 0)
	none.Span(Step, Iallreduce, none.TraceTime(), 0, 0)
}

// TestTraceRefuses: memory that is not a trace, or a damaged one, is an error.
func TestTraceRefuses(t *testing.T) {
	memory, tr, _ := newTrace(t)
	if _, err := NewTrace(memory, Identity{Size: 1}); err == nil {
		t.Error("memory in use was taken")
	}
	if _, err := NewTrace(make([]byte, TraceBytes-8), Identity{Size: 1}); !errors.Is(err, ErrShort) {
		t.Errorf("short memory: %v", err)
	}
	var none *Trace
	none.Sent(0, 0, 0, 0, 0) // no trace is one that notes nothing
	if _, err := ReadTrace(make([]byte, TraceHead)); !errors.Is(err, ErrEmpty) {
		t.Errorf("empty memory: %v", err)
	}
	tr.Sent(3, 0, 0, 1, 0)
	for what, at := range map[string]int{"magic": 0, "version": 8, "size": 24, "kind": TraceHead + 24, "peer": TraceHead + 20} {
		b := append([]byte(nil), memory[:TraceUsed(memory)]...)
		b[at] ^= 0x14
		b[at+1] = 0
		if what == "size" {
			b[at] = 1
		}
		if got, err := ReadTrace(b); err == nil {
			t.Errorf("damaged %s: %+v", what, got)
		}
	}
}

func TestTracePrefixes(t *testing.T) {
	b, tr, r := newTrace(t)
	r.End(Send, 8, r.Begin(Send, 8))
	tr.Sent(2, 7, 5, 1, 8)
	b = b[:TraceUsed(b)]
	for n := range b {
		if got, err := ReadTrace(b[:n]); err == nil {
			t.Errorf("the first %d of %d bytes: %+v", n, len(b), got)
		}
	}
}

func FuzzTrace(f *testing.F) {
	b, tr, r := newTrace(f)
	r.End(Send, 8, r.Begin(Send, 8))
	tr.Sent(2, 7, 5, 1, 8)
	f.Add(b[:TraceUsed(b)])
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := ReadTrace(b)
		if err != nil {
			return
		}
		for _, e := range got.Events {
			if e.Peer >= got.Size || e.Until < e.At || e.Kind < Operation || e.Kind > Matched {
				t.Errorf("%+v of %d ranks", e, got.Size)
			}
		}
	})
}

func TestTraceAllocs(t *testing.T) {
	_, tr, r := newTrace(t)
	if n := alloctest.Count(1000, func() {
		tr.Sent(1, 2, 3, 4, 5)
		tr.Matched(1, 2, 3, 4, 5)
		began := r.Begin(Send, 8)
		r.SetPeer(1, 2)
		r.End(Send, 8, began)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
