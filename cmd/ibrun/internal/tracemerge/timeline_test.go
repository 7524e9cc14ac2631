package tracemerge

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/tracemerge/tracetest"
	"github.com/ibrun/ibrun/perf"
)

// recording writes the trace of a rank with times that the test sets.
type recording struct {
	t        testing.TB
	rank     int
	memory   []byte
	trace    *perf.Trace
	recorder *perf.Recorder
	now      int64
}

func newRecording(t testing.TB, rank, size int) *recording {
	t.Helper()
	r := &recording{t: t, rank: rank, memory: make([]byte, perf.TraceBytes)}
	identity := perf.Identity{Rank: rank, Size: size}
	var err error
	if r.trace, err = perf.NewTrace(r.memory, identity); err != nil {
		t.Fatal(err)
	}
	if r.recorder, err = perf.NewRecorder(make([]byte, perf.PageBytes), identity, perf.All); err != nil {
		t.Fatal(err)
	}
	r.recorder.Trace(r.trace, func() int64 { return r.now })
	return r
}

// call records an operation, during which something may happen.
func (r *recording) call(op perf.Op, from, until int64, meanwhile func()) {
	r.now = from
	began := r.recorder.Begin(op, 8)
	if meanwhile != nil {
		meanwhile()
	}
	r.now = until
	r.recorder.SetPeer(0, 1)
	r.recorder.End(op, 8, began)
}

func (r *recording) left(at int64, peer int32, number uint32) {
	r.now = at
	r.trace.Sent(peer, 1, 2, number, 8)
}

func (r *recording) met(at int64, peer int32, number uint32) {
	r.now = at
	r.trace.Matched(peer, 1, 2, number, 8)
}

func (r *recording) done() Rank {
	return Rank{Rank: r.rank, Node: `n"0`, Trace: r.memory[:perf.TraceUsed(r.memory)]}
}

// check reads a timeline strictly.
func check(t *testing.T, text []byte) *tracetest.Timeline {
	t.Helper()
	tl, err := tracetest.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	return tl
}

func timeline(t *testing.T, ranks ...Rank) (warnings []string, text []byte) {
	t.Helper()
	var b bytes.Buffer
	warnings, err := Timeline(&b, ranks)
	if err != nil {
		t.Fatal(err)
	}
	return warnings, b.Bytes()
}

// TestTimeline: slices, arrows between them, messages outside of calls, and calls of several goroutines.
func TestTimeline(t *testing.T) {
	a, b := newRecording(t, 0, 3), newRecording(t, 1, 3)
	a.call(perf.Send, 1000, 2000, func() { a.left(1500, 1, 1) })
	a.left(2500, 1, 2)                        // outside of calls
	a.left(2600, 1, 3)                        // never received
	b.met(1800, 0, 1)                         // outside of calls
	b.call(perf.Waitall, 3000, 5000, func() { // during it, another goroutine
		b.met(3500, 0, 2)
		b.call(perf.Recv, 4000, 6000, nil)
		b.call(perf.Probe, 3200, 3300, nil) // has ended when the message arrives
		b.now = 3000
	})
	warnings, text := timeline(t, a.done(), Rank{Rank: 2}, b.done())
	if len(warnings) != 1 || !strings.Contains(warnings[0], "ranks 2 wrote no trace") {
		t.Errorf("warnings %q", warnings)
	}
	tl := check(t, text)
	if len(tl.Arrows) != 2 || len(tl.Slices[0]) != 2 || len(tl.Slices[1]) != 4 {
		t.Errorf("%+v", tl)
	}
	for _, a := range tl.Arrows {
		if a.From.Pid != 0 || a.To.Pid != 1 {
			t.Errorf("arrow %+v", a)
		}
	}
	send := tl.Slices[0][0]
	if send.Name != "Send" || send.At != 0 || send.Until != 1000 ||
		fmt.Sprint(send.Args) != "map[bytes:8 peer:0 tag:1]" {
		t.Errorf("slice %+v", send)
	}
}

// TestTimelineCollectives: immediate collectives in progress and their steps have threads of their own, and do not overlap there.
func TestTimelineCollectives(t *testing.T) {
	a := newRecording(t, 0, 2)
	a.call(perf.Iallreduce, 1000, 1100, nil)
	a.call(perf.Iallreduce, 1200, 1300, nil)
	for _, x := range []struct {
		kind       perf.EventKind
		from, till int64
	}{{perf.Step, 1400, 1500}, {perf.InProgress, 1000, 1600}, {perf.Step, 1700, 1800}, {perf.InProgress, 1200, 1900}} {
		a.now = x.from
		began := a.recorder.TraceTime()
		a.now = x.till
		a.recorder.Span(x.kind, perf.Iallreduce, began, 5, 64)
	}
	_, text := timeline(t, a.done())
	names := map[string]int{}
	for _, s := range check(t, text).Slices[0] {
		names[s.Name]++
	}
	if names["Iallreduce"] != 4 || names["step of Iallreduce"] != 2 {
		t.Errorf("slices %v", names)
	}
	for _, want := range []string{`"collectives in progress"`, `"collectives in progress at the same time, 2"`,
		`"steps of collectives"`} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("no thread is named %s in\n%s", want, text)
		}
	}
}

// TestTimelineTimes: for many different times, consecutive slices do not overlap, and arrows bind to their slices.
func TestTimelineTimes(t *testing.T) {
	a, b := newRecording(t, 0, 2), newRecording(t, 1, 2)
	const calls = 4000
	for i := range int64(calls) {
		at := 4000 + i*1004 // a recorder has times in steps of 4 ns
		a.call(perf.Send, at, at+1004, func() { a.left(at+i%1004, 1, uint32(i)) })
		b.call(perf.Recv, at+500, at+1504, func() { b.met(at+1503, 0, uint32(i)) })
	}
	_, text := timeline(t, a.done(), b.done())
	if tl := check(t, text); len(tl.Slices[0]) != calls || len(tl.Slices[1]) != calls || len(tl.Arrows) != calls {
		t.Errorf("%d and %d calls, %d arrows", len(tl.Slices[0]), len(tl.Slices[1]), len(tl.Arrows))
	}
}

// TestTimelineLost: lost events cause a warning, and no arrow has only one end.
func TestTimelineLost(t *testing.T) {
	a, b := newRecording(t, 0, 2), newRecording(t, 1, 2)
	const more = 10
	for i := range uint32(perf.TraceEvents + more) {
		a.left(int64(i+1), 1, i)
	}
	for i := range uint32(2 * more) {
		b.met(perf.TraceEvents+int64(i), 0, i)
	}
	warnings, text := timeline(t, a.done(), b.done())
	want := fmt.Sprintf("the first %d events of ranks 0 are lost", more+1)
	if tl := check(t, text); len(warnings) != 1 || !strings.Contains(warnings[0], want) || len(tl.Arrows) != more-1 {
		t.Errorf("warnings %q, %d arrows", warnings, len(tl.Arrows))
	}
}

// TestTimelineRefuses: a damaged trace is left out, and different clocks cause a warning.
func TestTimelineWarnings(t *testing.T) {
	a, b := newRecording(t, 0, 2), newRecording(t, 1, 2)
	a.left(2000, 1, 1)
	b.met(1900, 0, 1)
	if warnings, _ := timeline(t, a.done(), b.done()); len(warnings) != 1 ||
		!strings.Contains(warnings[0], "differ by up to 100 ns") {
		t.Errorf("warnings %q", warnings)
	}
	bad := b.done()
	bad.Trace = slices.Clone(bad.Trace)
	bad.Trace[8]++
	if warnings, _ := timeline(t, a.done(), bad); len(warnings) != 1 ||
		!strings.Contains(warnings[0], "the trace of rank 1 is left out: ") {
		t.Errorf("warnings %q", warnings)
	}
	if _, err := Timeline(new(bytes.Buffer), []Rank{{Rank: 0}, bad}); err == nil {
		t.Error("no trace and no error")
	}
}
