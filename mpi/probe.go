package mpi

import (
	"errors"
	"sync/atomic"

	"github.com/ibrun/ibrun/mpi/internal/proto"
	"github.com/ibrun/ibrun/perf"
)

// Message is a message that a matched probe has taken: only Mrecv or Imrecv can receive it, once. MPI-5.0 §3.8.2.
type Message struct {
	c     *Comm
	found proto.MatchedMessage
	none  bool // from ProcNull
	used  atomic.Bool
}

// noProc is the status of a message from ProcNull.
var noProc = Status{Source: ProcNull, Tag: AnyTag}

// Probe waits for a message that a receive with these arguments would take, and tells about it. MPI-5.0 §3.8.1.
func (c *Comm) Probe(src int, tag Tag) (Status, error) {
	st, _, err := c.probe(perf.Probe, src, tag, true)
	return st, err
}

// Iprobe is Probe that does not wait: it reports false if there is no such message. MPI-5.0 §3.8.1.
func (c *Comm) Iprobe(src int, tag Tag) (Status, bool, error) {
	return c.probe(perf.Iprobe, src, tag, false)
}

func (c *Comm) probe(op perf.Op, src int, tag Tag, block bool) (Status, bool, error) {
	from, err := c.source(op.String(), src, tag)
	if err != nil {
		return empty, false, err
	}
	if src == ProcNull {
		return noProc, true, nil
	}
	from.Op = op
	st, ok, err := c.e.Probe(from, block)
	if err != nil || !ok {
		return empty, false, c.below(op.String(), err)
	}
	return statusOf(st), true, nil
}

// Mprobe is Probe that also takes the message, so that no other receive gets it. MPI-5.0 §3.8.2.
func (c *Comm) Mprobe(src int, tag Tag) (*Message, Status, error) {
	m, st, _, err := c.take(perf.Mprobe, src, tag, true)
	return m, st, err
}

// Improbe is Mprobe that does not wait: it reports false if there is no such message. MPI-5.0 §3.8.2.
func (c *Comm) Improbe(src int, tag Tag) (*Message, Status, bool, error) {
	return c.take(perf.Improbe, src, tag, false)
}

func (c *Comm) take(op perf.Op, src int, tag Tag, block bool) (*Message, Status, bool, error) {
	from, err := c.source(op.String(), src, tag)
	if err != nil {
		return nil, empty, false, err
	}
	if src == ProcNull {
		return &Message{c: c, none: true}, noProc, true, nil
	}
	from.Op = op
	f, st, ok, err := c.e.MatchedProbe(from, block)
	if err != nil || !ok {
		return nil, empty, false, c.below(op.String(), err)
	}
	return &Message{c: c, found: f}, statusOf(st), true, nil
}

// Mrecv receives a message that a matched probe has taken, as Recv would. MPI-5.0 §3.8.3.
func Mrecv[T Elem](m *Message, x []T) (Status, error) {
	b := bytesOf(x)
	began := uint64(0)
	if m != nil {
		began = m.c.e.BeginOp(perf.Mrecv, len(b))
	}
	r, err := m.recv(perf.Mrecv.Within(), b)
	if err != nil {
		return empty, err
	}
	st, err := m.c.e.WaitAs(perf.Mrecv.Within(), r.h)
	m.c.e.EndOp(perf.Mrecv, st.Bytes, began)
	return statusOf(st), m.c.below("Mrecv", err)
}

// Imrecv begins to receive a message that a matched probe has taken. MPI-5.0 §3.8.3.
func Imrecv[T Elem](m *Message, x []T) (Request, error) {
	return m.recv(perf.Imrecv, bytesOf(x))
}

func (m *Message) recv(op perf.Op, b []byte) (Request, error) {
	if m == nil {
		return Request{}, fault(op.String(), ErrRequest, errors.New("the message is nil"))
	}
	if m.used.Swap(true) {
		return Request{}, m.c.err(op.String(), ErrRequest, errors.New("the message has been received before"))
	}
	if m.none {
		return Request{m.c.e.Irecv(proto.Route{Match: proto.Match{Rank: proto.ProcNull}, Op: op}, nil)}, nil
	}
	return Request{m.c.e.RecvMatched(op, m.found, b)}, nil
}
