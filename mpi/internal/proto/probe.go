package proto

import (
	"cmp"
	"context"

	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/mpi/internal/notes"
	"github.com/ibrun/ibrun/perf"
)

// MatchedMessage is a message that a matched probe has removed from matching. It is received once, with RecvMatched.
type MatchedMessage struct{ m *unexpectedMessage }

func (m *unexpectedMessage) status() Status {
	return Status{Source: m.v.Rank, Tag: m.v.Tag, Bytes: m.bytes()}
}

// probe returns an unexpected message that matches from. If there is none it polls once, or blocks until there is one or ctx has
// ended.
func (e *Engine) probe(ctx context.Context, from Route, block bool) (*unexpectedMessage, error) {
	t := e.contexts.table(from.Context)
	if m := t.FindUnexpected(from.Rank, from.Tag); m != nil {
		return m, nil
	}
	if err := assertionError(t, from); err != nil {
		return nil, err
	}
	g := goal{watch: watch{what: messageMatches, from: from}}
	var stopped error
	if block {
		lane := e.rec.Enter(from.Op, from.Context, from.Peer, from.Tag, 0)
		stopped = e.waiters.awaitContext(ctx, &g)
		e.rec.Configured.Leave(lane)
	} else {
		e.departures.probed = from
		if err := e.poller.pollInTest(); err != nil {
			return nil, err
		}
		if e.failure.departed {
			g.err = e.departures.errorOf(from)
		}
	}
	t = e.contexts.table(from.Context) // the context may have ended meanwhile
	if m := t.FindUnexpected(from.Rank, from.Tag); m != nil {
		return m, nil
	}
	if e.contexts.isEnded(t) {
		return nil, ErrContextEnded
	}
	if err := assertionError(t, from); err != nil {
		return nil, err
	}
	return nil, cmp.Or(e.failure.err, g.err, stopped)
}

// Probe returns the status of the first message that matches from. If block is set it blocks until there is one; otherwise ok
// reports whether there is one.
func (e *Engine) Probe(from Route, block bool) (st Status, ok bool, err error) {
	return e.ProbeContext(context.Background(), from, block)
}

// ProbeContext is Probe that ends with a StoppedError when ctx ends.
func (e *Engine) ProbeContext(ctx context.Context, from Route, block bool) (st Status, ok bool, err error) {
	e.lock()
	defer e.unlock()
	m, err := e.recordedProbe(ctx, from, block)
	if m == nil {
		return Status{}, false, err
	}
	return m.status(), true, nil
}

// MatchedProbe is like ProbeContext, and removes the message, so that no other receive gets it. If ctx has ended it has removed
// none.
func (e *Engine) MatchedProbe(ctx context.Context, from Route, block bool) (f MatchedMessage, st Status, ok bool, err error) {
	e.lock()
	defer e.unlock()
	m, err := e.recordedProbe(ctx, from, block)
	if m == nil {
		return MatchedMessage{}, Status{}, false, err
	}
	e.contexts.table(from.Context).RemoveUnexpected(&m.node)
	return MatchedMessage{m}, m.status(), true, nil
}

// recordedProbe is probe, recorded as from.Op.
func (e *Engine) recordedProbe(ctx context.Context, from Route, block bool) (*unexpectedMessage, error) {
	began := e.rec.Active.Begin(from.Op, 0)
	m, err := e.probe(ctx, from, block)
	e.rec.SetPeer(from.Context, from.Peer, from.Tag)
	e.rec.Active.End(from.Op, 0, began)
	return m, err
}

// RecvMatched starts to receive a message that MatchedProbe has returned. f must not be used again. The call is recorded as op.
func (e *Engine) RecvMatched(op perf.Op, f MatchedMessage, buf []byte) Handle {
	e.lock()
	defer e.unlock()
	return e.recvMatched(op, f, buf, nil, nil)
}

// recvMatched is RecvMatched into buf, or the elements of d unless it is nil, with a note unless n is nil.
func (e *Engine) recvMatched(op perf.Op, f MatchedMessage, buf []byte, d *datatype.Buffer, n *notes.Note) Handle {
	r := e.requests.take()
	r.send, r.buf, r.err, r.status = false, buf, nil, Status{}
	if d != nil {
		e.requests.setData(r, d)
	}
	size := r.size()
	began := e.rec.Active.Begin(op, size)
	if n != nil {
		r.setNote(n)
	}
	r.route = Route{Context: f.m.v.Context, Peer: f.m.peer, Match: f.m.v.Match, Op: op}
	e.acceptUnexpected(r, f.m)
	e.rec.SetPeer(r.route.Context, r.route.Peer, r.route.Tag)
	e.rec.Active.End(op, size, began)
	return r.handle()
}
