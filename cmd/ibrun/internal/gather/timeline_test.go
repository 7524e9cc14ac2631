package gather

import (
	"bytes"
	"encoding/json"
	"fmt"
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

// ns reads microseconds with three decimals.
func ns(t *testing.T, n json.Number) int64 {
	t.Helper()
	var us, rest int64
	if _, err := fmt.Sscanf(string(n), "%d.%03d", &us, &rest); err != nil {
		t.Fatalf("time %q: %v", n, err)
	}
	return us*1000 + rest
}

// check reads a timeline as strictly as its documentation asks, and returns the slices by rank and the arrows. Slices of a
// thread lie side by side or in each other; every arrow has one beginning and one end, each within a slice of its thread that
// stands before it in the file.
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
	slicesOf, arrows = map[int][]event{}, map[int][2]event{}
	threads, named := map[[2]int][]event{}, map[[2]int]bool{}
	for _, e := range file.TraceEvents {
		at := [2]int{e.Pid, e.Tid}
		switch e.Ph {
		case "M":
			named[at] = named[at] || e.Name == "thread_name"
		case "X":
			if e.Name == "" || ns(t, e.Dur) <= 0 || ns(t, e.Ts) < 0 {
				t.Errorf("slice %+v", e)
			}
			for _, o := range threads[at] {
				from, until := max(ns(t, o.Ts), ns(t, e.Ts)), min(ns(t, o.Ts)+ns(t, o.Dur), ns(t, e.Ts)+ns(t, e.Dur))
				if from < until && until != ns(t, e.Ts)+ns(t, e.Dur) {
					t.Errorf("%+v and %+v overlap, and neither holds the other", o, e)
				}
			}
			threads[at] = append(threads[at], e)
			slicesOf[e.Pid] = append(slicesOf[e.Pid], e)
		case "s", "f":
			end := strings.Index("sf", e.Ph)
			pair := arrows[e.ID]
			if e.ID == 0 || pair[end].Ph != "" || (e.Ph == "f") != (e.Bp == "e") {
				t.Errorf("arrow %+v, and there is %+v", e, pair)
			}
			pair[end] = e
			arrows[e.ID] = pair
			if !slices.ContainsFunc(threads[at], func(o event) bool {
				return ns(t, o.Ts) <= ns(t, e.Ts) && ns(t, e.Ts) < ns(t, o.Ts)+ns(t, o.Dur)
			}) {
				t.Errorf("no slice is around %+v", e)
			}
		default:
			t.Errorf("phase %q", e.Ph)
		}
	}
	for at := range threads {
		if !named[at] {
			t.Errorf("thread %v has no name", at)
		}
	}
	for id, pair := range arrows {
		if pair[0].Ph != "s" || pair[1].Ph != "f" || pair[0].Cat != pair[1].Cat || pair[0].Name != pair[1].Name {
			t.Errorf("arrow %d: %+v", id, pair)
		}
	}
	return slicesOf, arrows
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
		b.call(perf.Probe, 3200, 3300, nil)
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
