package core

import (
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

// Probe blocks until there is a message that a receive with these arguments would match, and returns its status.
func (c *Comm) Probe(src, tag int) (Status, error) {
	st, _, err := c.probe(perf.Probe, src, tag, true)
	return st, err
}

// Iprobe is Probe without blocking: it reports false if there is no such message.
func (c *Comm) Iprobe(src, tag int) (Status, bool, error) {
	return c.probe(perf.Iprobe, src, tag, false)
}

func (c *Comm) probe(op perf.Op, src, tag int, block bool) (Status, bool, error) {
	from, err := c.recvRoute(op.String(), src, tag)
	if err != nil {
		return emptyStatus, false, err
	}
	if src == ProcNull {
		return procNullStatus, true, nil
	}
	from.Op = op
	st, ok, err := c.engine.Probe(from, block)
	if err != nil || !ok {
		return emptyStatus, false, c.wrapError(op.String(), err)
	}
	return statusOf(st), true, nil
}

// Mprobe is Probe that also removes the message from the matching queue, so that no other receive gets it.
func (c *Comm) Mprobe(src, tag int) (*Message, Status, error) {
	m, st, _, err := c.mprobe(perf.Mprobe, src, tag, true)
	return m, st, err
}

// Improbe is Mprobe without blocking: it reports false if there is no such message.
func (c *Comm) Improbe(src, tag int) (*Message, Status, bool, error) {
	return c.mprobe(perf.Improbe, src, tag, false)
}

func (c *Comm) mprobe(op perf.Op, src, tag int, block bool) (*Message, Status, bool, error) {
	from, err := c.recvRoute(op.String(), src, tag)
	if err != nil {
		return nil, emptyStatus, false, err
	}
	if src == ProcNull {
		return &Message{comm: c, status: procNullStatus, fromProcNull: true}, procNullStatus, true, nil
	}
	from.Op = op
	f, st, ok, err := c.engine.MatchedProbe(from, block)
	if err != nil || !ok {
		return nil, emptyStatus, false, c.wrapError(op.String(), err)
	}
	return &Message{comm: c, msg: f, status: statusOf(st)}, statusOf(st), true, nil
}

// Status returns the status of the matched probe.
func (m *Message) Status() Status {
	if m.isNone() {
		return emptyStatus
	}
	return m.status
}

// Mrecv receives the message.
func (m *Message) Mrecv(b []byte, k datatype.Kind) (Status, error) {
	began := uint64(0)
	if !m.isNone() {
		began = m.comm.engine.Recording().BeginOp(perf.Mrecv, len(b))
	}
	r, err := m.recv(perf.Mrecv.Within(), b, k)
	if err != nil {
		return emptyStatus, err
	}
	st, err := m.comm.engine.WaitAs(perf.Mrecv.Within(), r.h)
	m.comm.engine.Recording().EndOp(perf.Mrecv, st.Bytes, began)
	return statusOf(st), m.comm.wrapError("Mrecv", err)
}

// Imrecv starts to receive the message.
func (m *Message) Imrecv(b []byte, k datatype.Kind) (Request, error) {
	return m.recv(perf.Imrecv, b, k)
}

func (m *Message) recv(op perf.Op, b []byte, k datatype.Kind) (Request, error) {
	if done, r, err := m.take(op); done {
		return r, err
	}
	if m.comm.checks {
		return Request{m.comm.engine.RecvMatchedNoted(op, m.msg, b, m.comm.proc.newNote(op, k))}, nil
	}
	return Request{m.comm.engine.RecvMatched(op, m.msg, b)}, nil
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

// take marks the message as received. done reports whether the receive is complete with the other results: a message from
// ProcNull is empty, and a message is received once.
func (m *Message) take(op perf.Op) (done bool, r Request, err error) {
	switch {
	case m.isNone():
		return true, Request{}, newError(op.String(), ErrRequest, errors.New("the message is nil or the zero Message"))
	case m.received.Swap(true):
		return true, Request{}, m.comm.newError(op.String(), ErrRequest, errors.New("the message has already been received"))
	case m.fromProcNull:
		return true, Request{m.comm.engine.Irecv(proto.Route{Match: proto.Match{Rank: proto.ProcNull}, Op: op}, nil)}, nil
	}
	return false, Request{}, nil
}
