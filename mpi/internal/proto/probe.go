package proto

import "github.com/ibrun/ibrun/perf"

// MatchedMessage is a message taken out of matching by a matched probe. It is received once, with RecvFound.
type MatchedMessage struct{ m *arrived }

func (m *arrived) status() Status {
	return Status{Source: m.v.Rank, Tag: m.v.Tag, Bytes: m.bytes()}
}

// find looks for a message that fits, once or until there is one.
func (e *Engine) find(from Route, block bool) (*arrived, error) {
	if m := e.table(from.Context).FindUnexpected(from.Rank, from.Tag); m != nil {
		return m, nil
	}
	if err := e.forbidden(from); err != nil {
		return nil, err
	}
	if block {
		lane := e.rec.Enter(from.Op, from.Peer, from.Tag, 0)
		g := goal{what: message, from: from}
		e.await(&g)
		e.book.Leave(lane)
	} else if err := e.poke(); err != nil {
		return nil, err
	}
	t := e.table(from.Context)
	if m := t.FindUnexpected(from.Rank, from.Tag); m != nil {
		return m, nil
	}
	if t == &e.dead {
		return nil, ErrContextEnded
	}
	if err := e.forbidden(from); err != nil {
		return nil, err
	}
	return nil, e.broken
}

// Probe tells of the first message that fits from, and waits for it if block is set. ok is false if there is none.
func (e *Engine) Probe(from Route, block bool) (st Status, ok bool, err error) {
	e.lock()
	defer e.unlock()
	began := e.rec.Begin(from.Op, 0)
	m, err := e.find(from, block)
	e.rec.With(from.Peer, from.Tag)
	e.rec.End(from.Op, 0, began)
	if m == nil {
		return Status{}, false, err
	}
	return m.status(), true, nil
}

// MatchedProbe is Probe, and takes the message so that no other receive gets it.
func (e *Engine) MatchedProbe(from Route, block bool) (f MatchedMessage, st Status, ok bool, err error) {
	e.lock()
	defer e.unlock()
	began := e.rec.Begin(from.Op, 0)
	m, err := e.find(from, block)
	e.rec.With(from.Peer, from.Tag)
	e.rec.End(from.Op, 0, began)
	if m == nil {
		return MatchedMessage{}, Status{}, false, err
	}
	e.table(from.Context).RemoveUnexpected(&m.waiting)
	return MatchedMessage{m}, m.status(), true, nil
}

// RecvMatched begins to receive a message that Take returned. f is used up. It is recorded as op.
func (e *Engine) RecvMatched(op perf.Op, f MatchedMessage, buf []byte) Handle {
	e.lock()
	defer e.unlock()
	began := e.rec.Begin(op, len(buf))
	r := e.take()
	r.send, r.buf, r.err, r.status = false, buf, nil, Status{}
	r.route = Route{Context: f.m.v.context, Peer: f.m.peer, Match: f.m.v.Match, Op: op}
	e.accept(r, f.m)
	e.rec.With(r.route.Peer, r.route.Tag)
	e.rec.End(op, len(buf), began)
	return r.handle()
}
