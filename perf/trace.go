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
	// TraceEvents is the number of events it holds: the latest ones.
	TraceEvents = (TraceBytes - TraceHead) / traceEventBytes

	// TraceHead is the length in bytes of the head of a trace, which TraceUsed reads.
	TraceHead = traceFixedHead + Names*nameRowBytes

	traceFixedHead  = 72
	traceEventBytes = 32
	traceBytesBits  = 42 // of the length in traceEvent.bytesOpKind
	traceMagic      = 0x4942_5255_4e54_5231
	traceVersion    = 3
)

// traceLayout is a trace: a head, and a ring of events.
type traceLayout struct {
	magic   uint64 // stored last, after the rest of the head
	version uint64
	rank    uint64
	size    uint64
	count   uint64 // number of events written so far; stored after each event
	_       [4]uint64
	names   nameTable // of communicators
	events  [TraceEvents]traceEvent
}

// traceEvent is an operation that has ended, or a message that was sent or matched.
type traceEvent struct {
	at          uint64 // nanoseconds
	endOrNumber uint64 // operation: its end in nanoseconds; message: context<<32 | number
	peerTag     uint64 // peer<<32 | tag
	bytesOpKind uint64 // number of the communicator's name<<58 | bytes<<16 | operation<<8 | kind
}

// EventKind is the kind of an event.
type EventKind uint8

// The kinds of events.
const (
	// Operation is a call, from its begin to its end.
	Operation EventKind = 1 + iota
	// Sent is a message to a peer that was passed to the transport, or waits for room there.
	Sent
	// Matched is a message of a peer that was matched with its receive.
	Matched
	// InProgress is an immediate collective, from its start to its completion. The call that starts it is an Operation.
	InProgress
	// Step is work of such a collective between its messages: a copy or a reduction.
	Step
)

// Event is an event of a trace. Times are in nanoseconds by the clock that Run was given.
type Event struct {
	Kind EventKind
	Op   Op // NoOp for messages; of a Step, the collective
	// At is the time of the event, or of the begin of an operation, a collective or a step; Until is its end.
	At, Until int64
	// Peer is a rank of the job, -1 for any, none or several; Tag is -1 for any or none.
	Peer, Tag int
	Bytes     int
	// Context identifies the communicator. Number counts the messages from one rank to another over all contexts, from 1, modulo
	// 1<<32: Sent at one rank and Matched at the other are the same message if their numbers are equal.
	Context, Number uint32
	// Comm is the name of the communicator of an operation; empty if it is not known or has none.
	Comm string
}

// Trace writes the events of a rank. Only one goroutine at a time may call its methods. A nil Trace writes nothing.
type Trace struct {
	l   *traceLayout
	now func() int64 // nil until Recorder.Trace
}

// NewTrace initialises memory, which must be zero, as the trace of a rank. The memory must stay valid and in place while the
// trace is used.
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

// Sent records a message to a peer: the number-th to it.
func (t *Trace) Sent(peer, tag int32, context, number uint32, n int) {
	t.message(Sent, peer, tag, context, number, n)
}

// Matched records that the number-th message of a peer was matched with a receive.
func (t *Trace) Matched(peer, tag int32, context, number uint32, n int) {
	t.message(Matched, peer, tag, context, number, n)
}

func (t *Trace) message(kind EventKind, peer, tag int32, context, number uint32, n int) {
	if t == nil || t.now == nil {
		return
	}
	t.put(uint64(t.now()), uint64(context)<<32|uint64(number), peer, tag, n, NoOp, kind)
}

func (t *Trace) put(at, more uint64, peer, tag int32, n int, op Op, kind EventKind) {
	count := atomic.LoadUint64(&t.l.count) // once, as another process can write there
	e := &t.l.events[count%TraceEvents]
	set(&e.at, at)
	set(&e.endOrNumber, more)
	set(&e.peerTag, uint64(uint32(peer))<<32|uint64(uint32(tag)))
	set(&e.bytesOpKind, uint64(n)<<16|uint64(op)<<8|uint64(kind))
	atomic.StoreUint64(&t.l.count, count+1)
}

// Trace starts a trace: from now on every operation is timed, by a clock in nanoseconds, and written to the trace, which then
// records messages as well. It must be called while no operation is in progress.
func (r *Recorder) Trace(to *Trace, now func() int64) {
	to.now = now
	r.trace, r.timeAll, r.clock = to, true, clock{read: now}
	r.peer, r.tag = -1, -1
	for op := range ops {
		if op.counted() {
			r.sampling[op].threshold = timeNext
		}
	}
	set(&r.page.mode, uint64(All))
	set(&r.page.clock, 0)
}

// SetPeer sets the peer and the tag, or -1, of the operation that ends next. Only a trace uses them.
func (r *Recorder) SetPeer(peer, tag int32) {
	if r != nil {
		r.peer, r.tag = max(peer, -1), max(tag, -1)
	}
}

// traceOp writes an operation that has ended to the trace.
func (r *Recorder) traceOp(op Op, n int, start uint64) {
	r.trace.put(start, r.clock.now(), r.peer, r.tag, n|int(r.name)<<traceBytesBits, op, Operation)
	r.peer, r.tag, r.name = -1, -1, 0
}

// TraceTime returns the time for Span; 0 without a trace.
func (r *Recorder) TraceTime() uint64 {
	if r == nil || r.trace == nil {
		return 0
	}
	return r.clock.now()
}

// Span records an event that lasted from the time began, a result of TraceTime, until now: InProgress or Step. Without a trace it
// does nothing.
func (r *Recorder) Span(kind EventKind, op Op, began uint64, tag int32, n int) {
	if r == nil || r.trace == nil || began == 0 {
		return
	}
	r.trace.put(began, r.clock.now(), -1, tag, n|int(r.name)<<traceBytesBits, op, kind)
	r.name = 0
}

// TraceRecord is the content of a trace.
type TraceRecord struct {
	Identity
	// Events are in the order in which they were written; operations are written when they end.
	Events []Event
	// Comms are the names that the program has given to communicators, in this order, without repetitions.
	Comms []string
	// Lost is the number of earlier events that were overwritten.
	Lost uint64
}

// ReadTrace reads a copy of the memory of a trace; the first [TraceUsed] bytes suffice. The writer must have ended or be paused.
// Errors are ErrShort, ErrEmpty, ErrCorrupt and *VersionError.
func ReadTrace(b []byte) (*TraceRecord, error) {
	t, written, err := readTraceHead(b)
	if err != nil {
		return nil, err
	}
	if used := traceLength(written); len(b) < used {
		return nil, fmt.Errorf("%w: %d bytes of %d of a trace", ErrShort, len(b), used)
	}
	if written > TraceEvents {
		t.Lost = written - TraceEvents + 1 // the writer may have died while it overwrote the oldest event
	}
	for i := range uint64(Names) {
		if text := readTraceName(b, i+1); text != "" {
			t.Comms = append(t.Comms, text)
		}
	}
	t.Events = make([]Event, 0, written-t.Lost)
	for i := t.Lost; i < written; i++ {
		at := b[TraceHead+int(i%TraceEvents)*traceEventBytes:]
		e, err := readEvent(at, t.Size)
		if err != nil {
			return nil, err
		}
		e.Comm = readTraceName(b, binary.NativeEndian.Uint64(at[24:])>>(16+traceBytesBits))
		t.Events = append(t.Events, e)
	}
	return t, nil
}

// TraceUsed returns the number of bytes of a trace that are in use, from its start; 0 if it was never written. It reads the first
// TraceHead bytes only.
func TraceUsed(b []byte) int {
	_, written, err := readTraceHead(b)
	if err != nil {
		return 0
	}
	return traceLength(written)
}

func traceLength(written uint64) int {
	return TraceHead + int(min(written, TraceEvents))*traceEventBytes
}

// readTraceHead reads the head of a trace.
func readTraceHead(b []byte) (t *TraceRecord, written uint64, err error) {
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
	return &TraceRecord{Identity: Identity{Rank: int(word(2)), Size: int(word(3))}}, word(4), nil
}

// readEvent reads an event of a job with size ranks.
func readEvent(b []byte, size int) (Event, error) {
	word := func(i int) uint64 { return binary.NativeEndian.Uint64(b[8*i:]) }
	more, who, what := word(1), word(2), word(3)
	e := Event{Kind: EventKind(what), At: int64(word(0)), Bytes: int(what >> 16 & (1<<traceBytesBits - 1)),
		Peer: max(int(int32(who>>32)), -1), Tag: max(int(int32(who)), -1)}
	e.Until = e.At
	ok := e.Peer < size && e.At >= 0
	switch e.Kind {
	case Operation, InProgress, Step:
		e.Op, e.Until = Op(what>>8), int64(more)
		ok = ok && e.Until >= e.At
	case Sent, Matched:
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

// Sort orders the events by their begin. Of events with the same begin the longest comes first, and operations before messages.
func (t *TraceRecord) Sort() {
	slices.SortStableFunc(t.Events, func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(b.Until, a.Until), cmp.Compare(a.Kind, b.Kind))
	})
}
