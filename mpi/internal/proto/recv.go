package proto

import (
	"encoding/binary"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/mpi/internal/match"
)

// Recv receives a message into buf and returns when it is there.
func (e *Engine) Recv(from Route, buf []byte) (Status, error) {
	e.lock()
	began := uint64(0)
	if e.rec.Due(from.Op, len(buf)) {
		began = e.rec.Begin(from.Op, len(buf))
		e.queues(from.Context)
	}
	if e.atOnce(from, buf) { // by itself: nothing has to be kept over these calls, and an answer is about to go
		n := e.direct.length
		if began != 0 {
			e.rec.With(from.Peer, from.Tag)
		}
		e.rec.End(from.Op, n, began)
		e.unlock()
		return Status{Source: from.Rank, Tag: from.Tag, Bytes: n}, nil
	}
	st, err := e.recv(from, buf)
	if began != 0 {
		e.rec.With(from.Peer, st.Tag)
	}
	e.rec.End(from.Op, st.Bytes, began)
	e.unlock()
	return st, err
}

// recv is Recv by a request, unless atOnce has made it one.
func (e *Engine) recv(from Route, buf []byte) (Status, error) {
	r := e.direct.r
	if r == nil {
		r = e.take()
		r.send, r.route, r.buf = false, from, buf
		e.receive(r)
	}
	err := e.wait(r, from.Op)
	return r.status, err
}

// Irecv begins a receive. buf belongs to the engine until the request has completed.
func (e *Engine) Irecv(from Route, buf []byte) Handle {
	e.lock()
	began := uint64(0)
	if e.rec.Due(from.Op, len(buf)) {
		began = e.rec.Begin(from.Op, len(buf))
		e.queues(from.Context)
	}
	r := e.take()
	r.send, r.route, r.buf = false, from, buf
	e.receive(r)
	h := r.handle()
	if began != 0 {
		e.rec.With(from.Peer, from.Tag)
	}
	e.rec.End(from.Op, len(buf), began)
	e.unlock()
	return h
}

// receive begins the receive that r describes.
func (e *Engine) receive(r *Request) {
	r.err = nil
	r.status = Status{}
	if r.route.Rank == ProcNull {
		r.status = Status{Source: ProcNull, Tag: AnyTag}
		e.complete(r, nil)
		return
	}
	t := e.table(r.route.Context)
	m := t.FindUnexpected(r.route.Rank, r.route.Tag)
	if m == nil {
		if t == &e.dead {
			e.complete(r, ErrContextEnded)
			return
		}
		if !t.Post(&r.posted, r.route.Rank, r.route.Tag) {
			e.complete(r, e.forbidden(r.route))
		} else if len(r.buf) >= e.wantFrom {
			e.advertise(r)
		}
		return
	}
	t.RemoveUnexpected(&m.waiting)
	e.accept(r, m)
}

// accept gives a kept message to a receive.
func (e *Engine) accept(r *Request, m *arrived) {
	e.met(m.peer, m.v, m.number, m.bytes())
	switch m.v.kind {
	case kindOffer:
		e.pull(r, m.peer, m.v, m.w)
	case kindLong:
		e.acceptLong(r, m)
	default:
		if m.v.kind == kindSync {
			e.note(m.peer, envelope{kind: kindFin}, m.w[0])
		}
		e.deliver(r, m.v.Rank, m.v.Tag, m.data)
	}
	e.drop(m)
}

// deliver copies a payload to where it was wanted.
func (e *Engine) deliver(r *Request, source, tag int32, payload []byte) {
	n := fill(r.buf, payload)
	r.status = Status{Source: source, Tag: tag, Bytes: n}
	if len(payload) == len(r.buf) && r.ends == 0 && e.parked == 0 && !e.sleeping { // as complete, without the call
		r.state, r.buf = done, nil
		return
	}
	var err error
	if len(payload) != len(r.buf) {
		err = e.misfit(r, len(payload))
	}
	e.complete(r, err)
}

// arrived is a message that came before its receive.
type arrived struct {
	waiting match.Message[arrived]
	next    *arrived // free list
	peer    int32
	number  uint32 // see came
	v       envelope
	w       [5]uint64
	data    []byte
}

// bytes is the length of the message's payload.
func (m *arrived) bytes() int { return bytesOf(m.v, m.w, m.data) }

func bytesOf(v envelope, w [5]uint64, payload []byte) int {
	if v.kind == kindOffer {
		return int(w[0])
	}
	return len(payload)
}

// arrive handles one message from the transport; false means that no correct engine sends it.
func (e *Engine) arrive(peer int32, b []byte) bool {
	if len(b) < envelopeBytes {
		return false
	}
	// The usual cases, without the detour: an eager message for which a receive waits.
	n := len(b) - envelopeBytes
	first, second := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	if d := &e.direct; first == d.first && second == d.second && n <= len(d.buf) && first != 0 {
		d.first, d.length = 0, n
		fill(d.buf, b[envelopeBytes:])
	} else {
		if d.first != 0 {
			e.enlist()
		}
		source, tag := int32(second), int32(second>>32)
		if uint64(uint32(first)) != e.usual || source < 0 || tag < 0 {
			return e.handle(peer, b)
		}
		r := e.table(uint32(first>>32)).TakePosted(source, tag)
		if r == nil {
			return e.handle(peer, b)
		}
		e.deliver(r, source, tag, b[envelopeBytes:])
	}
	p := e.peers[peer]
	if p == nil || p.link.Zero() {
		e.linkTo(peer).In(n)
	} else {
		p.link.In(n)
	}
	return true
}

// fill is copy, without a call for the shortest payloads that are common.
func fill(to, from []byte) int {
	switch {
	case len(from) == 0:
		return 0
	case len(from) == 8 && len(to) >= 8:
		binary.NativeEndian.PutUint64(to, binary.NativeEndian.Uint64(from))
		return 8
	}
	return copy(to, from)
}

// handle is arrive for any message.
func (e *Engine) handle(peer int32, b []byte) bool {
	v, w, payload, err := parse(b)
	if err != nil {
		return false
	}
	switch v.kind {
	case kindEager, kindSync, kindOffer:
		return e.incoming(peer, v, w, payload)
	case kindLong:
		return e.longCame(peer, v, w, payload)
	case kindMore:
		return e.moreCame(peer, payload)
	case kindFin:
		return e.finished(peer, w)
	case kindHelp:
		return e.helped(peer, w)
	case kindWrote:
		return e.wrote(peer, w)
	case kindSend:
		return e.sendCopies(peer, w)
	case kindData:
		return e.dataCame(peer, w, payload)
	case kindChoke, kindUnchoke:
		e.choked(peer, v.kind == kindChoke)
	case kindWant:
		return e.wanted(peer, v, w)
	case kindPut:
		return e.putCame(peer, v, w)
	case kindUnwant:
		e.unwanted(peer, w)
	case kindForgot:
		e.forgot(peer, w)
	case kindPing, kindPong, kindSteer:
		return e.timely(peer, v.kind, w)
	}
	return true
}

// incoming matches a message that begins a transfer.
func (e *Engine) incoming(peer int32, v envelope, w [5]uint64, payload []byte) bool {
	if v.Rank < 0 || v.Tag < 0 || v.kind == kindOffer && w[0] > maxBytes {
		return false
	}
	e.see(peer, v)
	number := e.came(peer)
	if v.kind != kindOffer {
		e.linkTo(peer).In(len(payload))
	}
	t := e.table(v.context)
	r := t.TakePosted(v.Rank, v.Tag)
	if r == nil {
		if t == &e.dead {
			e.answer(peer, v.kind, w)
			return true
		}
		m := e.keep(peer, v, w, payload, len(payload))
		m.number = number
		t.AddUnexpected(&m.waiting, v.Rank, v.Tag)
		return true
	}
	if e.trace != nil {
		e.met(peer, v, number, bytesOf(v, w, payload))
	}
	switch v.kind {
	case kindEager:
		e.deliver(r, v.Rank, v.Tag, payload)
	case kindSync:
		e.note(peer, envelope{kind: kindFin}, w[0])
		e.deliver(r, v.Rank, v.Tag, payload)
	case kindOffer:
		e.pull(r, peer, v, w)
	}
	return true
}

// maxBytes bounds the length a peer may claim a message to have.
const maxBytes = 1 << 47

// progress takes what the transport has and reports whether anything happened.
func (e *Engine) progress() bool {
	if e.sleeping {
		// Polling disarms the transport: whoever sleeps on it would not be woken any more.
		e.parker.kick()
	}
	e.breath.Poll()
	n, err := e.domain.Poll(e.events[:])
	if err != nil {
		e.fail(-1, err)
		return true
	}
	for i := range n {
		ev := &e.events[i]
		switch ev.Kind {
		case fabric.Message:
			if !e.arrive(ev.Peer, ev.Data) {
				e.fail(ev.Peer, fabric.ErrCorrupt)
			}
		case fabric.Done:
			e.moved(ev.Token, ev.Err)
		case fabric.PeerDown:
			e.fail(ev.Peer, ev.Err)
		}
	}
	if n != 0 && len(e.watches) != 0 {
		e.stir()
	}
	if len(e.backlog) != 0 && e.flush() {
		return true
	}
	return n != 0
}
