package core

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/mpi/internal/proto"
	"github.com/ibrun/ibrun/perf"
)

// Message is a message that a matched probe has taken: only Mrecv or Imrecv can receive it, once.
type Message struct {
	comm         *Comm
	msg          proto.MatchedMessage
	status       Status
	fromProcNull bool // from ProcNull
	received     atomic.Bool
}

// isNone reports whether m is nil or the zero Message, which stand for no message.
func (m *Message) isNone() bool { return m == nil || m.comm == nil }

// procNullStatus is the status of a message from ProcNull.
var procNullStatus = Status{Source: ProcNull, Tag: AnyTag}

// Probe blocks until there is a message that a receive with these arguments would match, and
// returns its status. It ends when ctx ends.
func Probe(ctx context.Context, c *Comm, src, tag int) (Status, error) {
	st, _, err := probe(ctx, c, perf.Probe, src, tag, true)
	return st, err
}

// Iprobe is Probe without blocking: it reports false if there is no such message.
func Iprobe(c *Comm, src, tag int) (Status, bool, error) {
	return probe(context.Background(), c, perf.Iprobe, src, tag, false)
}

func probe(ctx context.Context, c *Comm, op perf.Op, src, tag int, block bool) (Status, bool, error) {
	from, err := probeRoute(ctx, c, op, src, tag)
	switch {
	case err != nil:
		return emptyStatus, false, err
	case src == ProcNull:
		return procNullStatus, true, nil
	}
	st, ok, err := c.engine.Probes().Probe(ctx, from, block)
	if err != nil || !ok {
		return emptyStatus, false, c.wrapStopped(op.String(), err)
	}
	return statusOf(st), true, nil
}

// probeRoute checks the arguments of a probe and returns its route. It returns an error if ctx has
// ended.
func probeRoute(ctx context.Context, c *Comm, op perf.Op, src, tag int) (proto.Route, error) {
	from, err := c.recvRoute(op.String(), src, tag)
	// So the result does not depend on whether a message is there already.
	if err == nil && ctx.Err() != nil {
		err = c.wrapStopped(op.String(), proto.Stopped(ctx))
	}
	from.Op = op
	return from, err
}

// Mprobe is Probe that also removes the message from the matching queue, so that no other receive
// gets it.
func Mprobe(ctx context.Context, c *Comm, src, tag int) (*Message, Status, error) {
	m, _, err := mprobe(ctx, c, perf.Mprobe, src, tag, true)
	return m, m.Status(), err
}

// Improbe is Mprobe without blocking: it reports false if there is no such message.
func Improbe(c *Comm, src, tag int) (*Message, Status, bool, error) {
	m, ok, err := mprobe(context.Background(), c, perf.Improbe, src, tag, false)
	return m, m.Status(), ok, err
}

func mprobe(ctx context.Context, c *Comm, op perf.Op, src, tag int, block bool) (*Message, bool, error) {
	from, err := probeRoute(ctx, c, op, src, tag)
	switch {
	case err != nil:
		return nil, false, err
	case src == ProcNull:
		return &Message{comm: c, status: procNullStatus, fromProcNull: true}, true, nil
	}
	f, st, ok, err := c.engine.Probes().MatchedProbe(ctx, from, block)
	if err != nil || !ok {
		return nil, false, c.wrapStopped(op.String(), err)
	}
	return &Message{comm: c, msg: f, status: statusOf(st)}, true, nil
}

// Status returns the status of the matched probe.
func (m *Message) Status() Status {
	if m.isNone() {
		return emptyStatus
	}
	return m.status
}

// Mrecv receives the message into the elements of d.
func (m *Message) Mrecv(d *datatype.Buffer) (Status, error) {
	began := uint64(0)
	// Without a message there is no process that records the call; recv returns the error.
	if !m.isNone() {
		began = m.comm.engine.Recording().BeginOp(perf.Mrecv, int(d.Size()))
	}
	r, err := m.recv(perf.Mrecv.Within(), d)
	if err != nil {
		return emptyStatus, err
	}
	st, err := m.comm.engine.Requests().WaitAs(perf.Mrecv.Within(), r.h)
	m.comm.engine.Recording().EndOp(perf.Mrecv, st.Bytes, began)
	return statusOf(st), m.comm.wrapError("Mrecv", err)
}

// Imrecv starts to receive the message into the elements of d.
func (m *Message) Imrecv(d *datatype.Buffer) (Request, error) { return m.recv(perf.Imrecv, d) }

// recv starts to receive the message, once. A message from ProcNull is empty.
func (m *Message) recv(op perf.Op, d *datatype.Buffer) (Request, error) {
	if m.isNone() {
		return Request{}, newError(op.String(), ErrRequest, errors.New("the message is nil or the zero Message"))
	}
	// The data are checked before the message counts as received, so that the program can receive
	// it after that error.
	if err := checkSink(d); err != nil {
		return Request{}, m.comm.wrapError(op.String(), err)
	}
	switch {
	case m.received.Swap(true):
		return Request{}, m.comm.newError(op.String(), ErrRequest, errors.New("the message has already been received"))
	case m.fromProcNull:
		return Request{m.comm.engine.Irecv(proto.Route{Match: proto.Match{Rank: proto.ProcNull}, Op: op}, nil)}, nil
	}
	return Request{m.comm.engine.Probes().RecvMatched(op, m.msg, d, m.comm.note(op, d))}, nil
}

// CallError returns the error of a call on c that the front end has found. c may be nil.
func (c *Comm) CallError(op string, class Class, err error) error {
	if c.isNone() {
		return newError(op, class, err)
	}
	return c.newError(op, class, err)
}

// Comm returns the communicator of the message; nil for nil.
func (m *Message) Comm() *Comm {
	if m == nil {
		return nil
	}
	return m.comm
}
