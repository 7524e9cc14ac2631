package tracemerge

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/perf"
)

// end is where a message leaves or meets its receive.
type end struct {
	from, to int // ranks
	number   uint32
	at       int64
	rank     int // index into the timeline's ranks
	event    int // of it
}

func (a end) compare(b end) int {
	return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to), cmp.Compare(a.number, b.number))
}

// arrow is an end of a message of which there are both.
type arrow struct {
	id    int // the same for both
	event int
}

// track is the timeline of a rank.
type track struct {
	*perf.TraceRecord
	node   string
	arrows []arrow // by event
	lanes  []int64 // when the last slice of each ends
}

// A lane is a row of slices that lie side by side, a thread of the format. A rank has more than one if several of its goroutines
// made calls at the same time. Slices never lie in each other, though the format allows that: viewers take an arrow for one of
// the slice that began last in its thread, even if that has ended and one around it has not.

// Timeline writes what all ranks did as a trace in Chrome's JSON format, which Perfetto opens: a process for each rank, in it a
// slice for each operation, and a flow for each message of which both ends were recorded.
func Timeline(w io.Writer, ranks []Rank) (told []string, err error) {
	var tracks []*track
	var without []int
	var lost uint64
	var losers []int
	for _, r := range ranks {
		t, err := perf.ReadTrace(r.Trace)
		switch {
		case len(r.Trace) == 0, errors.Is(err, perf.ErrEmpty):
			without = append(without, r.Rank)
			continue
		case err == nil && t.Rank != r.Rank:
			err = fmt.Errorf("it says that it is of rank %d", t.Rank)
		}
		if err != nil {
			told = append(told, fmt.Sprintf("the trace of rank %d is left out: %v", r.Rank, err))
			continue
		}
		if t.Lost > 0 {
			lost += t.Lost
			losers = append(losers, r.Rank)
		}
		t.Sort()
		tracks = append(tracks, &track{TraceRecord: t, node: r.Node})
	}
	if len(without) > 0 {
		told = append(told, fmt.Sprintf("ranks %s have left none: they run no package mpi", hw.FormatList(without)))
	}
	if lost > 0 {
		told = append(told, fmt.Sprintf("%d events at the beginning are lost, of ranks %s: there is room for the last %d of each rank",
			lost, hw.FormatList(losers), perf.TraceEvents))
	}
	if len(tracks) == 0 {
		return told, errors.New("no rank has left a trace")
	}
	if back, most := pair(tracks); back > 0 {
		told = append(told, fmt.Sprintf("%d messages seem to arrive before they left, and have no arrow: "+
			"clocks of the nodes differ by up to %d ns", back, most))
	}
	return told, write(w, tracks)
}

// pair finds the messages of which both ends are there, and numbers those that go forward in time: viewers complain of others. It
// tells how many do not, and by how much.
func pair(tracks []*track) (back int, most int64) {
	var left, met []end
	for k, t := range tracks {
		for i, e := range t.Events {
			switch e.Kind {
			case perf.Sent:
				left = append(left, end{t.Rank, e.Peer, e.Number, e.At, k, i})
			case perf.Matched:
				met = append(met, end{e.Peer, t.Rank, e.Number, e.At, k, i})
			}
		}
	}
	slices.SortFunc(left, end.compare)
	slices.SortFunc(met, end.compare)
	id := 0
	for len(left) > 0 && len(met) > 0 {
		a, b := left[0], met[0]
		order := a.compare(b)
		if order <= 0 {
			left = left[1:]
		}
		if order >= 0 {
			met = met[1:]
		}
		if order != 0 {
			continue
		}
		if d := a.at - b.at; d >= 0 {
			back++
			most = max(most, d)
			continue
		}
		id++
		tracks[a.rank].arrows = append(tracks[a.rank].arrows, arrow{id, a.event})
		tracks[b.rank].arrows = append(tracks[b.rank].arrows, arrow{id, b.event})
	}
	for _, t := range tracks {
		slices.SortFunc(t.arrows, func(a, b arrow) int { return cmp.Compare(a.event, b.event) })
	}
	return back, most
}

// write writes tracks as JSON, one event a line.
func write(to io.Writer, tracks []*track) error {
	w := &writer{out: bufio.NewWriterSize(to, 1<<16)}
	first := true
	for _, t := range tracks {
		if len(t.Events) > 0 && (first || t.Events[0].At < w.base) {
			w.base, first = t.Events[0].At, false
		}
	}
	w.text(`{"displayTimeUnit":"ns","traceEvents":[`)
	for _, t := range tracks {
		w.track(t)
	}
	w.text("\n],\"otherData\":{\"recorded-by\":\"ibrun\"}}\n")
	return w.out.Flush()
}

// writer writes events. The errors of out come with its Flush.
type writer struct {
	out  *bufio.Writer
	base int64 // time 0
	any  bool  // an event has been written
	line []byte
}

func (w *writer) text(s string) { w.out.WriteString(s) }

// begin begins an event of a phase.
func (w *writer) begin(phase string, pid, tid int) {
	if w.any {
		w.out.WriteByte(',')
	}
	w.any = true
	w.line = append(w.line[:0], "\n{\"ph\":\""...)
	w.line = append(w.line, phase...)
	w.number(`","pid":`, int64(pid))
	w.number(`,"tid":`, int64(tid))
}

func (w *writer) number(before string, n int64) {
	w.line = append(w.line, before...)
	w.line = strconv.AppendInt(w.line, n, 10)
}

// time writes nanoseconds as microseconds, and a fifth of a nanosecond more: readers take them for binary fractions, of which
// 1.001 is a little less, and cut off what is below a nanosecond. Without it slices would overlap here and there, and be dropped.
func (w *writer) time(before string, ns int64) {
	w.number(before, ns/1000)
	w.line = append(w.line, '.', byte('0'+ns/100%10), byte('0'+ns/10%10), byte('0'+ns%10), '2')
}

func (w *writer) end(after string) {
	w.line = append(w.line, after...)
	w.out.Write(w.line)
}

// names names a process or thread.
func (w *writer) names(what string, pid, tid int, name string) {
	w.begin("M", pid, tid)
	quoted, _ := json.Marshal(name) // a string always can be
	w.end(fmt.Sprintf(`,"name":%q,"args":{"name":%s}}`, what, quoted))
}

// track writes a rank.
func (w *writer) track(t *track) {
	w.names("process_name", t.Rank, 0, fmt.Sprintf("rank %d on %s", t.Rank, t.node))
	w.begin("M", t.Rank, 0)
	w.end(fmt.Sprintf(`,"name":"process_sort_index","args":{"sort_index":%d}}`, t.Rank))
	if t.Lost > 0 {
		w.begin("M", t.Rank, 0)
		w.end(fmt.Sprintf(`,"name":"process_labels","args":{"labels":"%d earlier events lost"}}`, t.Lost))
	}
	arrows := t.arrows
	for i, e := range t.Events {
		if e.Kind == perf.Operation {
			w.slice(t, t.place(e.At, until(e)), e.Op.String(), e)
			continue
		}
		if len(arrows) == 0 || arrows[0].event != i {
			continue
		}
		w.flow(t, e, arrows[0].id)
		arrows = arrows[1:]
	}
	for i := range t.lanes {
		name := "calls"
		if i > 0 {
			name = fmt.Sprintf("calls at the same time, %d", i+1)
		}
		w.names("thread_name", t.Rank, i+1, name)
	}
}

// until is when a slice ends: the viewer wants some length.
func until(e perf.Event) int64 { return max(e.Until, e.At+1) }

// place finds a lane for a slice, or makes one. Slices come in order.
func (t *track) place(at, until int64) int {
	i := slices.IndexFunc(t.lanes, func(end int64) bool { return end <= at })
	if i < 0 {
		i, t.lanes = len(t.lanes), append(t.lanes, 0)
	}
	t.lanes[i] = until
	return i
}

// around finds a lane with a slice at that time, or makes one: what comes while no call is under way is shown by itself.
func (t *track) around(at int64) (lane int, found bool) {
	if i := slices.IndexFunc(t.lanes, func(end int64) bool { return end > at }); i >= 0 {
		return i, true
	}
	return t.place(at, at+1), false
}

func (w *writer) slice(t *track, lane int, name string, e perf.Event) {
	w.begin("X", t.Rank, lane+1)
	w.line = append(w.line, `,"cat":"call","name":"`...)
	w.line = append(w.line, name...)
	w.time(`","ts":`, e.At-w.base)
	w.time(`,"dur":`, until(e)-e.At)
	w.number(`,"args":{"bytes":`, int64(e.Bytes))
	if e.Peer >= 0 {
		w.number(`,"peer":`, int64(e.Peer))
	}
	if e.Tag >= 0 {
		w.number(`,"tag":`, int64(e.Tag))
	}
	w.end("}}")
}

// flow writes one end of an arrow. It belongs to the slice around it.
func (w *writer) flow(t *track, e perf.Event, id int) {
	lane, found := t.around(e.At)
	if !found {
		w.slice(t, lane, "message", e)
	}
	phase := "s"
	if e.Kind == perf.Matched {
		phase = "f"
	}
	w.begin(phase, t.Rank, lane+1)
	if e.Kind == perf.Matched {
		w.line = append(w.line, `,"bp":"e"`...)
	}
	w.number(`,"cat":"message","name":"message","id":`, int64(id))
	w.time(`,"ts":`, e.At-w.base)
	w.number(`,"args":{"bytes":`, int64(e.Bytes))
	w.number(`,"peer":`, int64(e.Peer))
	w.number(`,"tag":`, int64(e.Tag))
	w.number(`,"communicator":`, int64(e.Context>>1))
	w.end("}}")
}
