package proto

import (
	"encoding/binary"

	"github.com/ibrun/ibrun/mpi/internal/wire"
)

// Recv receives a message into buf and returns when it is complete.
func (e *Engine) Recv(from Route, buf []byte) (Status, error) {
	e.lock()
	began := uint64(0)
	if e.rec.Active.Due(from.Op, len(buf)) {
		began = e.rec.Active.Begin(from.Op, len(buf))
		e.rec.Active.Matched(e.contexts.table(from.Context).Lengths())
	}
	// This is a path of its own: fewer values live across calls, and the reply to this message
	// waits for it.
	if e.tryDirect(from, buf) {
		n := e.poller.in.direct.length
		if began != 0 {
			e.rec.SetPeer(from.Context, from.Peer, from.Tag)
		}
		e.rec.Active.End(from.Op, n, began)
		e.unlock()
		return Status{Source: from.Rank, Tag: from.Tag, Bytes: n}, nil
	}
	st, err := e.recv(from, buf)
	if began != 0 {
		e.rec.SetPeer(from.Context, from.Peer, st.Tag)
	}
	e.rec.Active.End(from.Op, st.Bytes, began)
	e.unlock()
	return st, err
}

// recv receives with a request: the one that tryDirect has made, or a new one.
func (e *Engine) recv(from Route, buf []byte) (Status, error) {
	r := e.poller.in.direct.req
	if r == nil {
		r = e.requests.take()
		r.send, r.route, r.buf = false, from, buf
		e.receives.start(r)
	}
	err := e.requests.waitRequest(r, from.Op)
	return r.status, err
}

// Irecv starts a receive. buf must not be used until the request has completed.
func (e *Engine) Irecv(from Route, buf []byte) Handle {
	e.lock()
	began := uint64(0)
	if e.rec.Active.Due(from.Op, len(buf)) {
		began = e.rec.Active.Begin(from.Op, len(buf))
		e.rec.Active.Matched(e.contexts.table(from.Context).Lengths())
	}
	r := e.requests.take()
	r.send, r.route, r.buf = false, from, buf
	e.receives.start(r)
	h := r.handle()
	if began != 0 {
		e.rec.SetPeer(from.Context, from.Peer, from.Tag)
	}
	e.rec.Active.End(from.Op, from.Moves(len(buf)), began)
	e.unlock()
	return h
}

// start starts the receive that r describes: it takes an unexpected message, or posts the receive.
func (x *receives) start(r *Request) {
	r.err = nil
	r.status = Status{}
	if r.route.Rank == ProcNull {
		r.status = Status{Source: ProcNull, Tag: AnyTag}
		x.requests.complete(r, nil)
		return
	}
	t := x.contexts.table(r.route.Context)
	m := t.FindUnexpected(r.route.Rank, r.route.Tag)
	if m == nil {
		if x.contexts.isEnded(t) {
			x.requests.complete(r, ErrContextEnded)
			return
		}
		if !t.Post(&r.posted, r.route.Rank, r.route.Tag) {
			x.requests.complete(r, assertionError(t, r.route))
		} else if len(r.buf) >= x.hints.minRTR {
			x.sendRTR(r)
		}
		return
	}
	t.RemoveUnexpected(&m.node)
	x.accept(r, m)
}

// accept matches an unexpected message, already removed from its table, with a receive.
func (x *receives) accept(r *Request, m *unexpectedMessage) {
	x.rec.Matched(m.peer, m.v, m.number, m.bytes())
	x.noteMatched(r, m.note, m.v.Rank)
	p := x.links.peer(m.peer)
	switch a := &p.frags; {
	case m.v.Kind == wire.RTS:
		if m.moves != p.moves {
			// Another domain has taken over since the message arrived. The memory is registered
			// with the old one, and cannot be read.
			m.w[1], m.w[2] = wire.NoWord, wire.NoWord
		}
		x.startRendezvous(r, m.peer, m.v, m.w, false)
	case a.m == m: // the rest of its fragments is still to arrive
		a.start(r, m.v, m.data[:a.received])
	default:
		if m.v.Kind == wire.EagerSync {
			x.links.sendControl(m.peer, wire.Envelope{Kind: wire.FIN}, m.w[0])
		}
		x.deliver(r, m.v.Rank, m.v.Tag, m.data)
	}
	x.unexpected.drop(m)
}

// deliver copies an eager payload to its receive and completes that.
func (x *receives) deliver(r *Request, source, tag int32, payload []byte) {
	n := copyPayload(r.buf, payload)
	r.status = Status{Source: source, Tag: tag, Bytes: n}
	if len(payload) == len(r.buf) && r.flags == 0 && r.sleeper == nil && *x.general == 0 {
		r.state, r.buf = done, nil // what complete would do, without the call
		return
	}
	if r.flags&inParts != 0 { // nothing was copied, since buf is nil
		x.deliverParts(r, source, tag, payload)
		return
	}
	var err error
	if len(payload) != len(r.buf) {
		err = x.lengthError(r, len(payload))
	}
	x.requests.complete(r, err)
}

// copyPayload is copy, without a call for the most frequent short lengths.
func copyPayload(to, from []byte) int {
	switch {
	case len(from) == 0:
		return 0
	case len(from) == 8 && len(to) >= 8:
		binary.NativeEndian.PutUint64(to, binary.NativeEndian.Uint64(from))
		return 8
	}
	return copy(to, from)
}
