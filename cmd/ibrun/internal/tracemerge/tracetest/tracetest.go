// Package tracetest reads timelines, for tests, as Perfetto's trace processor does, and refuses what that would drop or draw
// somewhere else than it belongs:
//
//	tl, err := tracetest.Read(text)
//	for _, a := range tl.Arrows {
//		fmt.Println(a.From.Pid, "to", a.To.Pid)
//	}
//
// Slices of a thread lie side by side or in each other. Every arrow has one beginning and, later, one end, which bear an id,
// category and name that no other has; each binds to the slice that began last in its thread, and that must not be over.
package tracetest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Event is what the Trace Event Format allows that is used here: phases M, X, s and f.
type Event struct {
	Ph   string
	Pid  int // the rank
	Tid  int
	Name string
	Cat  string
	Bp   string
	ID   int
	Args map[string]any
	// TS and Dur are as they are written, At and Until what they come to in nanoseconds.
	TS, Dur   json.Number
	At, Until int64 `json:"-"`
}

// Arrow is a message.
type Arrow struct{ From, To Event }

// Timeline is what a file shows.
type Timeline struct {
	Slices map[int][]Event // by rank, in order of time
	Arrows map[int]Arrow   // by id
}

// thread names one of a rank.
type thread struct{ pid, tid int }

// reader takes in events in order of time, and of those at the same time in the order of the file.
type reader struct {
	Timeline
	open  map[thread][]Event // slices that no later one has closed, the innermost last
	named map[thread]bool
	errs  []error
}

// Read reads a file. The error has everything that is wrong with it.
func Read(text []byte) (*Timeline, error) {
	var file struct {
		DisplayTimeUnit string
		TraceEvents     []Event
		OtherData       map[string]string
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	d.DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		return nil, err
	}
	r := &reader{Timeline{map[int][]Event{}, map[int]Arrow{}}, map[thread][]Event{}, map[thread]bool{}, nil}
	var timed []Event
	for _, e := range file.TraceEvents {
		if e.Ph == "M" {
			r.name(e)
		} else if r.time(&e) {
			timed = append(timed, e)
		}
	}
	slices.SortStableFunc(timed, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	for _, e := range timed {
		if e.Ph == "X" {
			r.slice(e)
		} else {
			r.arrow(e)
		}
	}
	for at := range r.open {
		if !r.named[at] {
			r.fail("thread %v has no name", at)
		}
	}
	for id, a := range r.Arrows {
		if a.To.Ph == "" {
			r.fail("arrow %d has no end: %+v", id, a.From)
		}
	}
	return &r.Timeline, errors.Join(r.errs...)
}

func (r *reader) fail(format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf(format, args...))
}

// time reads the times of an event.
func (r *reader) time(e *Event) bool {
	at, err := nanoseconds(e.TS)
	length, errDur := int64(0), error(nil)
	switch {
	case e.Ph == "X":
		length, errDur = nanoseconds(e.Dur)
	case e.Ph != "s" && e.Ph != "f" || e.Dur != "":
		errDur = fmt.Errorf("phase %q with length %q", e.Ph, e.Dur)
	}
	if err := errors.Join(err, errDur); err != nil {
		r.fail("%w in %+v", err, *e)
		return false
	}
	e.At, e.Until = at, at+length
	return true
}

// nanoseconds is what readers make of microseconds. They take them for a binary fraction, and some cut off what is below a
// nanosecond while others round: all have to come to the same as the text says.
func nanoseconds(n json.Number) (int64, error) {
	var us, rest int64
	if _, err := fmt.Sscanf(string(n), "%d.%3d", &us, &rest); err != nil {
		return 0, fmt.Errorf("time %q: %w", n, err)
	}
	f, err := n.Float64()
	if cut, near := int64(f*1000), int64(math.Round(f*1000)); err != nil || cut != near || cut != us*1000+rest {
		return 0, fmt.Errorf("time %q is read as %d ns or %d ns", n, cut, near)
	}
	return us*1000 + rest, nil
}

func (r *reader) name(e Event) {
	if name, ok := e.Args["name"].(string); e.Name == "thread_name" && ok && name != "" {
		r.named[thread{e.Pid, e.Tid}] = true
	}
	known := []string{"process_name", "process_sort_index", "process_labels", "thread_name"}
	if len(e.Args) != 1 || !slices.Contains(known, e.Name) {
		r.fail("metadata %+v", e)
	}
}

func (r *reader) slice(e Event) {
	if e.Name == "" || e.Cat == "" || e.Until <= e.At || e.At < 0 {
		r.fail("slice %+v", e)
	}
	at := thread{e.Pid, e.Tid}
	open := r.open[at]
	for len(open) > 0 && open[len(open)-1].Until <= e.At {
		open = open[:len(open)-1]
	}
	if len(open) > 0 && open[len(open)-1].Until < e.Until {
		r.fail("%+v and %+v overlap, and neither holds the other", open[len(open)-1], e)
	}
	r.open[at] = append(open, e)
	r.Slices[e.Pid] = append(r.Slices[e.Pid], e)
}

func (r *reader) arrow(e Event) {
	a, began := r.Arrows[e.ID]
	switch {
	case e.ID == 0 || e.Cat != "message" || e.Name != "message": // all have the same category and name, so that only the id differs
		r.fail("arrow %+v", e)
	case e.Ph == "s":
		if began || e.Bp != "" {
			r.fail("%+v begins an arrow, and there is %+v", e, a)
		}
		a.From = e
	default:
		if !began || a.To.Ph != "" || e.Bp != "e" || e.At <= a.From.At {
			r.fail("%+v ends an arrow, and there is %+v", e, a)
		}
		a.To = e
	}
	r.Arrows[e.ID] = a
	open := r.open[thread{e.Pid, e.Tid}]
	if len(open) == 0 || open[len(open)-1].Until <= e.At {
		r.fail("%+v binds to no slice around it, but to the last of %+v", e, open)
	}
}
