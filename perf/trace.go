package perf

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
)

// Sizes of a trace.
const (
	// TraceBytes is the length of the memory of a trace, a multiple of 64 KiB.
	TraceBytes = 4 << 20
	// TraceEvents is how many events it holds: the last ones.
	TraceEvents = (TraceBytes - TraceHead) / traceEventBytes

	// TraceHead is how much of a trace TraceUsed looks at, in bytes.
	TraceHead = 64

	traceEventBytes = 32
	traceMagic      = 0x4942_5255_4e54_5231
	traceVersion    = 1
)

// traceLayout is a trace: a head, and a ring of events.
type traceLayout struct {
	magic   uint64 // last, when the rest of the head is there
	version uint64
	rank    uint64
	size    uint64
	written uint64 // events ever; stored behind each
	_       [3]uint64
	events  [TraceEvents]traceEvent
}

// traceEvent is an operation that has ended, or a message that has left or was matched.
type traceEvent struct {
	at   uint64 // nanoseconds
	more uint64 // operation: when it ended; message: context<<32 | number
	who  uint64 // peer<<32 | tag
	what uint64 // bytes<<16 | operation<<8 | kind
}

// EventKind tells what an event is.
type EventKind uint8

// The kinds of events.
const (
	// Operation is a call from its begin to its end.
	Operation EventKind = 1 + iota
	// Left is a message on its way to a peer, from when it is handed to the transport or waits for room there.
	Left
	// Met is a message of a peer when its receive was found.
	Met
)

// Event is an event of a trace. Times are in nanoseconds by the clock that Run was given.
type Event struct {
	Kind EventKind
	Op   Op // NoOp for messages
	// At is when it happened, or the operation began; Until is when that ended.
	At, Until int64
	// Peer is a rank of the job, -1 for any, none or several, and Tag -1 likewise.
	Peer, Tag int
	Bytes     int
	// Context tells communicators apart. Number counts the messages from one rank to another, from 1, modulo 1<<32, whichever
	// contexts they belong to: Left at one and Met at the other are the same message if their numbers are the same.
	Context, Number uint32
}

// Trace writes the events of a rank. One goroutine at a time calls its methods. A nil Trace writes nothing.
type Trace struct {
	l   *traceLayout
	now func() int64 // nil: not yet
}

// NewTrace makes memory, which is all zero, the trace of a rank. Memory must not move or go as long as the trace is used.
func NewTrace(memory []byte, of Identity) (*Trace, error) {
	l := overlayTrace(memory)
	if l == nil {
		return nil, fmt.Errorf("%w: %d bytes for a trace", ErrShort, len(memory))
	}
	if l.magic != 0 {
		return nil, errors.New("perf: the trace is in use")
	}
	set(&l.version, traceVersion)
	set(&l.rank, uint64(of.Rank))
	set(&l.size, uint64(of.Size))
	atomic.StoreUint64(&l.magic, traceMagic)
	return &Trace{l: l}, nil
}

// Left notes a message on its way to a peer: the number-th to it.
func (t *Trace) Left(peer, tag int32, context, number uint32, n int) {
	t.message(Left, peer, tag, context, number, n)
}

// Met notes that a message of a peer, the number-th, has been given to a receive.
func (t *Trace) Met(peer, tag int32, context, number uint32, n int) {
	t.message(Met, peer, tag, context, number, n)
}

func (t *Trace) message(kind EventKind, peer, tag int32, context, number uint32, n int) {
	if t == nil || t.now == nil {
		return
	}
	t.put(uint64(t.now()), uint64(context)<<32|uint64(number), peer, tag, n, NoOp, kind)
}

func (t *Trace) put(at, more uint64, peer, tag int32, n int, op Op, kind EventKind) {
	count := t.l.written
	e := &t.l.events[count%TraceEvents]
	set(&e.at, at)
	set(&e.more, more)
	set(&e.who, uint64(uint32(peer))<<32|uint64(uint32(tag)))
	set(&e.what, uint64(n)<<16|uint64(op)<<8|uint64(kind))
	atomic.StoreUint64(&t.l.written, count+1)
}

// Trace has every operation timed from now on, by a clock that tells nanoseconds, and written to a trace, which begins to take
// down messages, too. No operation is under way.
func (r *Recorder) Trace(to *Trace, now func() int64) {
	to.now = now
	r.trace, r.all, r.clock = to, true, clock{read: now}
	r.peer, r.tag = -1, -1
	for op := range ops {
		if op.counted() {
			r.paces[op].from = one
		}
	}
	set(&r.l.mode, uint64(All))
	set(&r.l.clock, 0)
}

// With says which peer and tag, or -1, the operation has that ends next. That only matters to a trace.
func (r *Recorder) With(peer, tag int32) {
	if r != nil {
		r.peer, r.tag = max(peer, -1), max(tag, -1)
	}
}

// traced writes an operation that has ended to the trace.
func (r *Recorder) traced(op Op, n int, start uint64) {
	r.trace.put(start, r.clock.now(), r.peer, r.tag, n, op, Operation)
	r.peer, r.tag = -1, -1
}

// Traced is what a trace said.
type Traced struct {
	Identity
	// Events are in order of the time when they were written: operations when they ended.
	Events []Event
	// Lost is how many there were before these, which newer ones have taken the room of.
	Lost uint64
}

// ReadTrace reads a copy of the memory of a trace, of which the part is enough that [TraceUsed] tells. Whoever writes it has
// ended or pauses. Errors are ErrShort, ErrEmpty, ErrCorrupt and *VersionError.
func ReadTrace(b []byte) (*Traced, error) {
	t, written, err := readTraceHead(b)
	if err != nil {
		return nil, err
	}
	if used := usedBy(written); len(b) < used {
		return nil, fmt.Errorf("%w: %d bytes of %d of a trace", ErrShort, len(b), used)
	}
	if written > TraceEvents {
		t.Lost = written - TraceEvents + 1 // the writer may have begun to write over the oldest as it died
	}
	t.Events = make([]Event, 0, written-t.Lost)
	for i := t.Lost; i < written; i++ {
		e, err := readEvent(b[TraceHead+int(i%TraceEvents)*traceEventBytes:], t.Size)
		if err != nil {
			return nil, err
		}
		t.Events = append(t.Events, e)
	}
	return t, nil
}

// TraceUsed tells how many of the first bytes of a trace hold what it says: 0 if nobody has written it. The head is enough.
func TraceUsed(b []byte) int {
	_, written, err := readTraceHead(b)
	if err != nil {
		return 0
	}
	return usedBy(written)
}

func usedBy(written uint64) int { return TraceHead + int(min(written, TraceEvents))*traceEventBytes }

// readTraceHead reads the head of a trace.
func readTraceHead(b []byte) (t *Traced, written uint64, err error) {
	if len(b) < TraceHead {
		return nil, 0, fmt.Errorf("%w: %d bytes of a trace", ErrShort, len(b))
	}
	word := func(i int) uint64 { return binary.NativeEndian.Uint64(b[8*i:]) }
	switch magic := word(0); magic {
	case 0:
		return nil, 0, ErrEmpty
	case traceMagic:
	default:
		return nil, 0, fmt.Errorf("%w: a trace begins with %#x", ErrCorrupt, magic)
	}
	if v := word(1); v != traceVersion {
		return nil, 0, &VersionError{Got: v, Want: traceVersion}
	}
	if rank, size := word(2), word(3); rank >= size || size > 1<<31 {
		return nil, 0, fmt.Errorf("%w: a trace of rank %d of %d", ErrCorrupt, rank, size)
	}
	return &Traced{Identity: Identity{Rank: int(word(2)), Size: int(word(3))}}, word(4), nil
}

// readEvent reads an event of a job of so many ranks.
func readEvent(b []byte, size int) (Event, error) {
	word := func(i int) uint64 { return binary.NativeEndian.Uint64(b[8*i:]) }
	more, who, what := word(1), word(2), word(3)
	e := Event{Kind: EventKind(what), At: int64(word(0)), Bytes: int(what >> 16),
		Peer: max(int(int32(who>>32)), -1), Tag: max(int(int32(who)), -1)}
	e.Until = e.At
	ok := e.Peer < size && e.At >= 0
	switch e.Kind {
	case Operation:
		e.Op, e.Until = Op(what>>8), int64(more)
		ok = ok && e.Until >= e.At
	case Left, Met:
		e.Context, e.Number = uint32(more>>32), uint32(more)
		ok = ok && e.Peer >= 0
	default:
		ok = false
	}
	if !ok {
		return e, fmt.Errorf("%w: an event of kind %d with peer %d of %d, from %d to %d",
			ErrCorrupt, e.Kind, e.Peer, size, e.At, e.Until)
	}
	return e, nil
}

// Sort orders events by when they began; of those that begin together the longest comes first, and operations before messages.
func (t *Traced) Sort() {
	slices.SortStableFunc(t.Events, func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(b.Until, a.Until), cmp.Compare(a.Kind, b.Kind))
	})
}
