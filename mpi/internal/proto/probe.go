package proto

import (
	"cmp"
	"context"

	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/mpi/internal/notes"
	"github.com/ibrun/ibrun/mpi/internal/proto/internal/lock"
	"github.com/ibrun/ibrun/mpi/internal/proto/internal/record"
	"github.com/ibrun/ibrun/perf"
)

// Probes look at unexpected messages, and receive those that they have found.
type Probes struct {
	mu         *lock.Mutex // of the engine
	rec        *record.Recording
	waiters    *waiters
	poller     *poller
	requests   *Requests
	contexts   *Contexts
	departures *departures
	receives   *receives
}

// Probes returns what looks at the engine's unexpected messages.
func (e *Engine) Probes() *Probes { return &e.probes }

// MatchedMessage is a message that a matched probe has removed from matching. RecvMatched receives
// it, once.
type MatchedMessage struct{ m *unexpectedMessage }

func (m *unexpectedMessage) status() Status {
	return Status{Source: m.v.Rank, Tag: m.v.Tag, Bytes: m.bytes()}
}

// probe returns an unexpected message that matches from. If there is none it polls once, or blocks
// until there is one or ctx has ended.
func (p *Probes) probe(ctx context.Context, from Route, block bool) (*unexpectedMessage, error) {
	t := p.contexts.table(from.Context)
	if m := t.FindUnexpected(from.Rank, from.Tag); m != nil {
		return m, nil
	}
	if err := assertionError(t, from); err != nil {
		return nil, err
	}
	g := goal{watch: watch{what: messageMatches, from: from}}
	var stopped error
	if block {
		lane := p.rec.Enter(from.Op, from.Context, from.Peer, from.Tag, 0)
		stopped = p.waiters.awaitContext(ctx, &g)
		p.rec.Configured.Leave(lane)
	} else {
		p.departures.probed = from
		if err := p.poller.pollInTest(); err != nil {
			return nil, err
		}
		if p.waiters.failure.departed {
			g.err = p.departures.errorOf(from)
		}
	}
	t = p.contexts.table(from.Context) // the context may have ended meanwhile
	if m := t.FindUnexpected(from.Rank, from.Tag); m != nil {
		return m, nil
	}
	if p.contexts.isEnded(t) {
		return nil, ErrContextEnded
	}
	if err := assertionError(t, from); err != nil {
		return nil, err
	}
	return nil, cmp.Or(p.waiters.failure.err, g.err, stopped)
}

// Probe returns the status of the first message that matches from. If block is set it blocks until
// there is one, or ends with a StoppedError when ctx ends. Otherwise ok reports whether there is
// one.
func (p *Probes) Probe(ctx context.Context, from Route, block bool) (st Status, ok bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m, err := p.recordedProbe(ctx, from, block)
	if m == nil {
		return Status{}, false, err
	}
	return m.status(), true, nil
}

// MatchedProbe is Probe that also removes the message, so that no other receive gets it. If ctx has
// ended it has removed none.
func (p *Probes) MatchedProbe(ctx context.Context, from Route, block bool) (f MatchedMessage, st Status, ok bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m, err := p.recordedProbe(ctx, from, block)
	if m == nil {
		return MatchedMessage{}, Status{}, false, err
	}
	p.contexts.table(from.Context).RemoveUnexpected(&m.node)
	return MatchedMessage{m}, m.status(), true, nil
}

// recordedProbe is probe, recorded as from.Op.
func (p *Probes) recordedProbe(ctx context.Context, from Route, block bool) (*unexpectedMessage, error) {
	began := p.rec.Active.Begin(from.Op, 0)
	m, err := p.probe(ctx, from, block)
	p.rec.SetPeer(from.Context, from.Peer, from.Tag)
	p.rec.Active.End(from.Op, 0, began)
	return m, err
}

// RecvMatched starts a receive of a message that MatchedProbe has returned. The data go to the elements
// of d, which is copied. n is the note, or nil. f must not be used again. The call is recorded as op.
func (p *Probes) RecvMatched(op perf.Op, f MatchedMessage, d *datatype.Buffer, n *notes.Note) Handle {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.requests.take()
	r.send, r.status = false, Status{}
	p.requests.setData(r, d)
	size := r.size()
	began := p.rec.Active.Begin(op, size)
	if n != nil {
		r.setNote(p.receives.notes, n)
	}
	r.route = Route{Context: f.m.v.Context, Peer: f.m.peer, Match: f.m.v.Match, Op: op}
	p.receives.accept(r, f.m)
	p.rec.SetPeer(r.route.Context, r.route.Peer, r.route.Tag)
	p.rec.Active.End(op, size, began)
	return r.handle()
}
