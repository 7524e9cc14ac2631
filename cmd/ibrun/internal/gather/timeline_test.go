package gather

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/perf"
)

// recording writes the trace of a rank, at times that the test sets.
type recording struct {
	t      *testing.T
	rank   int
	memory []byte
	trace  *perf.Trace
	book   *perf.Recorder
	now    int64
}

func newRecording(t *testing.T, rank, size int) *recording {
	t.Helper()
	r := &recording{t: t, rank: rank, memory: make([]byte, perf.TraceBytes)}
	who := perf.Identity{Rank: rank, Size: size}
	var err error
	if r.trace, err = perf.NewTrace(r.memory, who); err != nil {
		t.Fatal(err)
	}
	if r.book, err = perf.NewRecorder(make([]byte, perf.PageBytes), who, perf.All); err != nil {
		t.Fatal(err)
	}
	r.book.Trace(r.trace, func() int64 { return r.now })
	return r
}

// call records an operation, during which something may happen.
func (r *recording) call(op perf.Op, from, until int64, meanwhile func()) {
	r.now = from
	began := r.book.Begin(op, 8)
	if meanwhile != nil {
		meanwhile()
	}
	r.now = until
	r.book.With(0, 1)
	r.book.End(op, 8, began)
}

func (r *recording) left(at int64, peer int32, number uint32) {
	r.now = at
	r.trace.Left(peer, 1, 2, number, 8)
}

func (r *recording) met(at int64, peer int32, number uint32) {
	r.now = at
	r.trace.Met(peer, 1, 2, number, 8)
}

func (r *recording) done() Rank {
	return Rank{Rank: r.rank, Node: `n"0`, Trace: r.memory[:perf.TraceUsed(r.memory)]}
}

// event is what the format allows that is used here. See the Trace Event Format, phases M, X, s and f.
type event struct {
	Ph   string
	Pid  int
	Tid  int
	Name string
	Cat  string
	Bp   string
	ID   int
	Ts   json.Number
	Dur  json.Number
	Args map[string]any
}

// ns is what readers make of a time in microseconds. They take it for a binary fraction, and some cut off what is below a
// nanosecond while others round: all have to come to the same as the text says.
func ns(t *testing.T, n json.Number) int64 {
	t.Helper()
	var us, rest int64
	_, errText := fmt.Sscanf(string(n), "%d.%3d", &us, &rest)
	f, err := n.Float64()
	if cut, near := int64(f*1000), int64(math.Round(f*1000)); errText != nil || err != nil || cut != near || cut != us*1000+rest {
		t.Fatalf("time %q is read as %d ns or %d ns; %v, %v", n, cut, near, errText, err)
	}
	return us*1000 + rest
}

// reader takes in events as Perfetto's trace processor does: in order of time, and of those at the same time in the order of
// the file.
type reader struct {
	t        *testing.T
	open     map[[2]int][]event // by process and thread: slices that no later one has closed, the innermost last
	named    map[[2]int]bool
	slicesOf map[int][]event // by rank
	arrows   map[int][2]event
}

// check reads a timeline as strictly as its documentation asks, and returns the slices by rank and the arrows. Slices of a
// thread lie side by side or in each other. Every arrow has one beginning and, later, one end, which bear the same id, category
// and name as no other does; each binds to the slice that has begun last in its thread, which is not over.
func check(t *testing.T, text []byte) (slicesOf map[int][]event, arrows map[int][2]event) {
	t.Helper()
	var file struct {
		DisplayTimeUnit string
		TraceEvents     []event
		OtherData       map[string]string
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	d.DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	r := &reader{t, map[[2]int][]event{}, map[[2]int]bool{}, map[int][]event{}, map[int][2]event{}}
	timed := slices.DeleteFunc(slices.Clone(file.TraceEvents), func(e event) bool { return e.Ph == "M" })
	slices.SortStableFunc(timed, func(a, b event) int { return cmp.Compare(ns(t, a.Ts), ns(t, b.Ts)) })
	for _, e := range timed {
		switch e.Ph {
		case "X":
			r.slice(e)
		case "s", "f":
			r.flow(e)
		default:
			t.Errorf("phase %q", e.Ph)
		}
	}
	for _, e := range file.TraceEvents {
		if e.Ph == "M" {
			r.name(e)
		}
	}
	for at := range r.open {
		if !r.named[at] {
			t.Errorf("thread %v has no name", at)
		}
	}
	for id, pair := range r.arrows {
		if pair[1].Ph != "f" {
			t.Errorf("arrow %d: %+v", id, pair)
		}
	}
	return r.slicesOf, r.arrows
}

func (r *reader) name(e event) {
	if name, ok := e.Args["name"].(string); e.Name == "thread_name" && ok && name != "" {
		r.named[[2]int{e.Pid, e.Tid}] = true
	}
	known := []string{"process_name", "process_sort_index", "process_labels", "thread_name"}
	if len(e.Args) != 1 || !slices.Contains(known, e.Name) {
		r.t.Errorf("metadata %+v", e)
	}
}

func (r *reader) slice(e event) {
	at := [2]int{e.Pid, e.Tid}
	from, until := ns(r.t, e.Ts), ns(r.t, e.Ts)+ns(r.t, e.Dur)
	if e.Name == "" || until <= from || e.Cat == "" {
		r.t.Errorf("slice %+v", e)
	}
	for n := len(r.open[at]); n > 0 && over(r.t, r.open[at][n-1]) <= from; n-- {
		r.open[at] = r.open[at][:n-1]
	}
	if n := len(r.open[at]); n > 0 && over(r.t, r.open[at][n-1]) < until {
		r.t.Errorf("%+v and %+v overlap, and neither holds the other", r.open[at][n-1], e)
	}
	r.open[at] = append(r.open[at], e)
	r.slicesOf[e.Pid] = append(r.slicesOf[e.Pid], e)
}

// over is when a slice ends.
func over(t *testing.T, e event) int64 {
	t.Helper()
	return ns(t, e.Ts) + ns(t, e.Dur)
}

func (r *reader) flow(e event) {
	pair, began := r.arrows[e.ID]
	switch {
	case e.ID == 0 || e.Cat != "message" || e.Name != "message": // ids are unique only with both
		r.t.Errorf("arrow %+v", e)
	case e.Ph == "s" && (began || e.Bp != ""):
		r.t.Errorf("arrow %+v begins, and there is %+v", e, pair)
	case e.Ph == "f" && (!began || pair[1].Ph != "" || e.Bp != "e" || ns(r.t, e.Ts) <= ns(r.t, pair[0].Ts)):
		r.t.Errorf("arrow %+v ends, and there is %+v", e, pair)
	}
	pair[strings.Index("sf", e.Ph)] = e
	r.arrows[e.ID] = pair
	open := r.open[[2]int{e.Pid, e.Tid}]
	if len(open) == 0 || over(r.t, open[len(open)-1]) <= ns(r.t, e.Ts) {
		r.t.Errorf("%+v binds to no slice around it, but to the last of %+v", e, open)
	}
}

func timeline(t *testing.T, ranks ...Rank) (told []string, text []byte) {
	t.Helper()
	var b bytes.Buffer
	told, err := Timeline(&b, ranks)
	if err != nil {
		t.Fatal(err)
	}
	return told, b.Bytes()
}

// TestTimeline: slices, arrows between them, messages outside of calls, and calls of several goroutines.
func TestTimeline(t *testing.T) {
	a, b := newRecording(t, 0, 3), newRecording(t, 1, 3)
	a.call(perf.Send, 1000, 2000, func() { a.left(1500, 1, 1) })
	a.left(2500, 1, 2)                        // in no call
	a.left(2600, 1, 3)                        // never comes
	b.met(1800, 0, 1)                         // in no call
	b.call(perf.Waitall, 3000, 5000, func() { // and another goroutine meanwhile
		b.met(3500, 0, 2)
		b.call(perf.Recv, 4000, 6000, nil)
		b.call(perf.Probe, 3200, 3300, nil) // over when the message comes
		b.now = 3000
	})
	told, text := timeline(t, a.done(), Rank{Rank: 2}, b.done())
	if len(told) != 1 || !strings.Contains(told[0], "ranks 2 have left none") {
		t.Errorf("told %q", told)
	}
	of, arrows := check(t, text)
	if len(arrows) != 2 || len(of[0]) != 2 || len(of[1]) != 4 {
		t.Errorf("%d arrows, slices %v", len(arrows), of)
	}
	for _, pair := range arrows {
		if pair[0].Pid != 0 || pair[1].Pid != 1 || ns(t, pair[0].Ts) >= ns(t, pair[1].Ts) {
			t.Errorf("arrow %+v", pair)
		}
	}
	send := of[0][0]
	if send.Name != "Send" || ns(t, send.Ts) != 0 || ns(t, send.Dur) != 1000 ||
		fmt.Sprint(send.Args) != "map[bytes:8 peer:0 tag:1]" {
		t.Errorf("slice %+v", send)
	}
}

// TestTimelineTimes: whatever the times, slices that follow each other do not overlap, and arrows bind to those they belong to.
func TestTimelineTimes(t *testing.T) {
	a, b := newRecording(t, 0, 2), newRecording(t, 1, 2)
	const calls = 4000
	for i := range int64(calls) {
		at := 4000 + i*1004 // a recorder has times in steps of 4 ns
		a.call(perf.Send, at, at+1004, func() { a.left(at+i%1004, 1, uint32(i)) })
		b.call(perf.Recv, at+500, at+1504, func() { b.met(at+1503, 0, uint32(i)) })
	}
	_, text := timeline(t, a.done(), b.done())
	if of, arrows := check(t, text); len(of[0]) != calls || len(of[1]) != calls || len(arrows) != calls {
		t.Errorf("%d and %d calls, %d arrows", len(of[0]), len(of[1]), len(arrows))
	}
}

// TestTimelineLost: what there was no room for is told, and leaves no arrow with one end.
func TestTimelineLost(t *testing.T) {
	a, b := newRecording(t, 0, 2), newRecording(t, 1, 2)
	const more = 10
	for i := range uint32(perf.TraceEvents + more) {
		a.left(int64(i+1), 1, i)
	}
	for i := range uint32(2 * more) {
		b.met(perf.TraceEvents+int64(i), 0, i)
	}
	told, text := timeline(t, a.done(), b.done())
	want := fmt.Sprintf("%d events at the beginning are lost, of ranks 0", more+1)
	if _, arrows := check(t, text); len(told) != 1 || !strings.Contains(told[0], want) || len(arrows) != more-1 {
		t.Errorf("told %q, %d arrows", told, len(arrows))
	}
}

// TestTimelineRefuses: a damaged trace is left out, and a rank whose clock is behind is told of.
func TestTimelineRefuses(t *testing.T) {
	a, b := newRecording(t, 0, 2), newRecording(t, 1, 2)
	a.left(2000, 1, 1)
	b.met(1900, 0, 1)
	if told, _ := timeline(t, a.done(), b.done()); len(told) != 1 || !strings.Contains(told[0], "differ by up to 100 ns") {
		t.Errorf("told %q", told)
	}
	bad := b.done()
	bad.Trace = slices.Clone(bad.Trace)
	bad.Trace[8]++
	if told, _ := timeline(t, a.done(), bad); len(told) != 1 || !strings.Contains(told[0], "the trace of rank 1 is left out: ") {
		t.Errorf("told %q", told)
	}
	if _, err := Timeline(new(bytes.Buffer), []Rank{{Rank: 0}, bad}); err == nil {
		t.Error("no trace and no error")
	}
}
