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
	"github.com/ibrun/ibrun/internal/printable"
	"github.com/ibrun/ibrun/perf"
)

// messageEnd is one end of a message: where it was sent, or where it matched its receive.
type messageEnd struct {
	from, to int // ranks
	number   uint32
	at       int64
	rank     int // index into the timelines
	event    int // index into the events of that rank
}

func (a messageEnd) compare(b messageEnd) int {
	return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to), cmp.Compare(a.number, b.number))
}

// flowEnd is an end of a message both ends of which were recorded.
type flowEnd struct {
	id    int // the same for both
	event int
}

// rankTimeline is the timeline of a rank.
type rankTimeline struct {
	*perf.TraceRecord
	node       string
	flows      []flowEnd // by event
	threadEnds []int64   // when the last slice of each thread of calls ends
	progress   []int64   // the same for immediate collectives in progress
	steps      []int64   // and for their steps
}

// The numbers of threads begin with these: of calls, of immediate collectives in progress, and of their steps.
const (
	firstCalls    = 1
	firstProgress = 1 << 20
	firstSteps    = 2 << 20
)

// A thread of the trace format is a row of slices. A rank has several if its goroutines made calls at the same time. Slices of a
// thread are never nested, although the format allows it: viewers bind an arrow to the slice that began last in its thread, even
// if that slice has ended and an enclosing one has not.

// Timeline writes the traces of all ranks in the JSON format of Chrome, which Perfetto opens. It has a process for each rank, a
// slice for each operation, each immediate collective in progress and each of its steps, and a flow for each message both ends of
// which were recorded.
func Timeline(w io.Writer, ranks []Rank) (warnings []string, err error) {
	var timelines []*rankTimeline
	var missing []int
	var lost uint64
	var truncated []int
	for _, r := range ranks {
		t, err := perf.ReadTrace(r.Trace)
		switch {
		case len(r.Trace) == 0, errors.Is(err, perf.ErrEmpty):
			missing = append(missing, r.Rank)
			continue
		case err == nil && t.Rank != r.Rank:
			err = fmt.Errorf("it is the trace of rank %d", t.Rank)
		}
		if err != nil {
			warnings = append(warnings, fmt.Sprintf("the trace of rank %d is left out: %v", r.Rank, err))
			continue
		}
		if t.Lost > 0 {
			lost += t.Lost
			truncated = append(truncated, r.Rank)
		}
		t.Sort()
		timelines = append(timelines, &rankTimeline{TraceRecord: t, node: r.Node})
	}
	if len(missing) > 0 {
		warnings = append(warnings, fmt.Sprintf("ranks %s wrote no trace: they do not use package mpi", hw.FormatList(missing)))
	}
	if lost > 0 {
		warnings = append(warnings, fmt.Sprintf("the first %d events of ranks %s are lost: "+
			"a trace keeps the last %d events of each rank",
			lost, hw.FormatList(truncated), perf.TraceEvents))
	}
	if len(timelines) == 0 {
		return warnings, errors.New("no rank wrote a trace")
	}
	if backward, skew := matchMessages(timelines); backward > 0 {
		warnings = append(warnings, fmt.Sprintf("%d messages appear to arrive before they were sent and have no arrow: "+
			"the clocks of the nodes differ by up to %d ns", backward, skew))
	}
	return warnings, writeTimeline(w, timelines)
}

// matchMessages finds the messages both ends of which were recorded, and numbers those that arrive after they were sent, because
// viewers reject others. It returns the number of the others and their largest clock difference.
func matchMessages(timelines []*rankTimeline) (backward int, skew int64) {
	var sent, matched []messageEnd
	for k, t := range timelines {
		for i, e := range t.Events {
			switch e.Kind {
			case perf.Sent:
				sent = append(sent, messageEnd{t.Rank, e.Peer, e.Number, e.At, k, i})
			case perf.Matched:
				matched = append(matched, messageEnd{e.Peer, t.Rank, e.Number, e.At, k, i})
			}
		}
	}
	slices.SortFunc(sent, messageEnd.compare)
	slices.SortFunc(matched, messageEnd.compare)
	id := 0
	for len(sent) > 0 && len(matched) > 0 {
		a, b := sent[0], matched[0]
		order := a.compare(b)
		if order <= 0 {
			sent = sent[1:]
		}
		if order >= 0 {
			matched = matched[1:]
		}
		if order != 0 {
			continue
		}
		if d := a.at - b.at; d >= 0 {
			backward++
			skew = max(skew, d)
			continue
		}
		id++
		timelines[a.rank].flows = append(timelines[a.rank].flows, flowEnd{id, a.event})
		timelines[b.rank].flows = append(timelines[b.rank].flows, flowEnd{id, b.event})
	}
	for _, t := range timelines {
		slices.SortFunc(t.flows, func(a, b flowEnd) int { return cmp.Compare(a.event, b.event) })
	}
	return backward, skew
}

// writeTimeline writes the timelines as JSON, one event per line.
func writeTimeline(to io.Writer, timelines []*rankTimeline) error {
	w := &eventWriter{out: bufio.NewWriterSize(to, 1<<16)}
	first := true
	for _, t := range timelines {
		if len(t.Events) > 0 && (first || t.Events[0].At < w.base) {
			w.base, first = t.Events[0].At, false
		}
	}
	w.text(`{"displayTimeUnit":"ns","traceEvents":[`)
	for _, t := range timelines {
		w.rank(t)
	}
	w.text("\n],\"otherData\":{\"recorded-by\":\"ibrun\"}}\n")
	return w.out.Flush()
}

// eventWriter writes events. Errors of out are returned by its Flush.
type eventWriter struct {
	out     *bufio.Writer
	base    int64 // time 0
	started bool  // an event has been written
	line    []byte
}

func (w *eventWriter) text(s string) { w.out.WriteString(s) }

// begin begins an event with this phase.
func (w *eventWriter) begin(phase string, pid, tid int) {
	if w.started {
		w.out.WriteByte(',')
	}
	w.started = true
	w.line = append(w.line[:0], "\n{\"ph\":\""...)
	w.line = append(w.line, phase...)
	w.number(`","pid":`, int64(pid))
	w.number(`,"tid":`, int64(tid))
}

func (w *eventWriter) number(before string, n int64) {
	w.line = append(w.line, before...)
	w.line = strconv.AppendInt(w.line, n, 10)
}

// time writes nanoseconds as microseconds, and adds 0.2 ns. Readers parse the number as a binary fraction, which may be slightly
// smaller than the decimal one, and truncate it to nanoseconds. Without the addition some slices would overlap and be dropped.
func (w *eventWriter) time(before string, ns int64) {
	w.number(before, ns/1000)
	w.line = append(w.line, '.', byte('0'+ns/100%10), byte('0'+ns/10%10), byte('0'+ns%10), '2')
}

func (w *eventWriter) end(after string) {
	w.line = append(w.line, after...)
	w.out.Write(w.line)
}

// nameEvent writes the name of a process or thread.
func (w *eventWriter) nameEvent(what string, pid, tid int, name string) {
	w.begin("M", pid, tid)
	quoted, _ := json.Marshal(name) // a string can always be encoded
	w.end(fmt.Sprintf(`,"name":%q,"args":{"name":%s}}`, what, quoted))
}

// rank writes a rank.
func (w *eventWriter) rank(t *rankTimeline) {
	w.nameEvent("process_name", t.Rank, 0, fmt.Sprintf("rank %d on %s", t.Rank, t.node))
	w.begin("M", t.Rank, 0)
	w.end(fmt.Sprintf(`,"name":"process_sort_index","args":{"sort_index":%d}}`, t.Rank))
	if t.Lost > 0 {
		w.begin("M", t.Rank, 0)
		w.end(fmt.Sprintf(`,"name":"process_labels","args":{"labels":"%d earlier events lost"}}`, t.Lost))
	}
	arrows := t.flows
	for i, e := range t.Events {
		switch e.Kind {
		case perf.Operation:
			w.slice(t, firstCalls+assignThread(&t.threadEnds, e.At, sliceEnd(e)), e.Op.String(), e)
			continue
		case perf.InProgress:
			w.slice(t, firstProgress+assignThread(&t.progress, e.At, sliceEnd(e)), e.Op.String(), e)
			continue
		case perf.Step:
			w.slice(t, firstSteps+assignThread(&t.steps, e.At, sliceEnd(e)), "step of "+e.Op.String(), e)
			continue
		}
		if len(arrows) == 0 || arrows[0].event != i {
			continue
		}
		w.flow(t, e, arrows[0].id)
		arrows = arrows[1:]
	}
	w.nameThreads(t.Rank, firstCalls, "calls", len(t.threadEnds))
	w.nameThreads(t.Rank, firstProgress, "collectives in progress", len(t.progress))
	w.nameThreads(t.Rank, firstSteps, "steps of collectives", len(t.steps))
}

// nameThreads names n threads that have things of one kind.
func (w *eventWriter) nameThreads(rank, first int, what string, n int) {
	for i := range n {
		name := what
		if i > 0 {
			name = fmt.Sprintf("%s at the same time, %d", what, i+1)
		}
		w.nameEvent("thread_name", rank, first+i, name)
	}
}

// sliceEnd returns when a slice ends. Viewers need a length of at least 1 ns.
func sliceEnd(e perf.Event) int64 { return max(e.Until, e.At+1) }

// assignThread returns the index of a thread that is free for a slice, and adds one if there is none. ends are the ends of the
// last slices of the threads. Slices come in order of time.
func assignThread(ends *[]int64, at, until int64) int {
	i := slices.IndexFunc(*ends, func(end int64) bool { return end <= at })
	if i < 0 {
		i, *ends = len(*ends), append(*ends, 0)
	}
	(*ends)[i] = until
	return i
}

// threadAt returns a thread with a slice at that time. If no call is in progress, it returns a free thread, and the message gets
// its own slice.
func (t *rankTimeline) threadAt(at int64) (thread int, found bool) {
	if i := slices.IndexFunc(t.threadEnds, func(end int64) bool { return end > at }); i >= 0 {
		return i, true
	}
	return assignThread(&t.threadEnds, at, at+1), false
}

func (w *eventWriter) slice(t *rankTimeline, thread int, name string, e perf.Event) {
	w.begin("X", t.Rank, thread)
	w.line = append(w.line, `,"cat":"call","name":"`...)
	w.line = append(w.line, name...)
	w.time(`","ts":`, e.At-w.base)
	w.time(`,"dur":`, sliceEnd(e)-e.At)
	w.number(`,"args":{"bytes":`, int64(e.Bytes))
	if e.Peer >= 0 {
		w.number(`,"peer":`, int64(e.Peer))
	}
	if e.Tag >= 0 {
		w.number(`,"tag":`, int64(e.Tag))
	}
	if e.Comm != "" {
		quoted, _ := json.Marshal(printable.Line(e.Comm)) // a string can always be encoded
		w.line = append(append(w.line, `,"communicator":`...), quoted...)
	}
	w.end("}}")
}

// flow writes one end of an arrow. It binds to the slice that encloses it.
func (w *eventWriter) flow(t *rankTimeline, e perf.Event, id int) {
	thread, found := t.threadAt(e.At)
	if !found {
		w.slice(t, firstCalls+thread, "message", e)
	}
	phase := "s"
	if e.Kind == perf.Matched {
		phase = "f"
	}
	w.begin(phase, t.Rank, firstCalls+thread)
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
