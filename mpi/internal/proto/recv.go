package proto

import "encoding/binary"

// Recv receives a message into buf and returns when it is complete.
func (e *Engine) Recv(from Route, buf []byte) (Status, error) {
	e.lock()
	began := uint64(0)
	if e.rec.active.Due(from.Op, len(buf)) {
		began = e.rec.active.Begin(from.Op, len(buf))
		e.rec.queueLengths(e.contexts.table(from.Context))
	}
	if e.tryDirect(from, buf) { // a path of its own: fewer values live across calls, and the reply to this message waits for it
		n := e.direct.length
		if began != 0 {
			e.rec.active.With(from.Peer, from.Tag)
		}
		e.rec.active.End(from.Op, n, began)
		e.unlock()
		return Status{Source: from.Rank, Tag: from.Tag, Bytes: n}, nil
	}
	st, err := e.recv(from, buf)
	if began != 0 {
		e.rec.active.With(from.Peer, st.Tag)
	}
	e.rec.active.End(from.Op, st.Bytes, began)
	e.unlock()
	return st, err
}

// recv receives with a request: the one that tryDirect has made, or a new one.
func (e *Engine) recv(from Route, buf []byte) (Status, error) {
	r := e.direct.req
	if r == nil {
		r = e.requests.take(e)
		r.send, r.route, r.buf = false, from, buf
		e.startRecv(r)
	}
	err := e.waitRequest(r, from.Op)
	return r.status, err
}

// Irecv starts a receive. buf must not be used until the request has completed.
func (e *Engine) Irecv(from Route, buf []byte) Handle {
	e.lock()
	began := uint64(0)
	if e.rec.active.Due(from.Op, len(buf)) {
		began = e.rec.active.Begin(from.Op, len(buf))
		e.rec.queueLengths(e.contexts.table(from.Context))
	}
	r := e.requests.take(e)
	r.send, r.route, r.buf = false, from, buf
	e.startRecv(r)
	h := r.handle()
	if began != 0 {
		e.rec.active.With(from.Peer, from.Tag)
	}
	e.rec.active.End(from.Op, len(buf), began)
	e.unlock()
	return h
}

// startRecv starts the receive that r describes: it takes an unexpected message, or posts the receive.
func (e *Engine) startRecv(r *Request) {
	r.err = nil
	r.status = Status{}
	if r.route.Rank == ProcNull {
		r.status = Status{Source: ProcNull, Tag: AnyTag}
		e.complete(r, nil)
		return
	}
	t := e.contexts.table(r.route.Context)
	m := t.FindUnexpected(r.route.Rank, r.route.Tag)
	if m == nil {
		if e.contexts.isEnded(t) {
			e.complete(r, ErrContextEnded)
			return
		}
		if !t.Post(&r.posted, r.route.Rank, r.route.Tag) {
			e.complete(r, assertionError(t, r.route))
		} else if len(r.buf) >= e.hints.minRTR {
			r.sendRTR()
		}
		return
	}
	t.RemoveUnexpected(&m.node)
	e.acceptUnexpected(r, m)
}

// deliver copies an eager payload to its receive and completes that.
func (e *Engine) deliver(r *Request, source, tag int32, payload []byte) {
	n := copyPayload(r.buf, payload)
	r.status = Status{Source: source, Tag: tag, Bytes: n}
	if len(payload) == len(r.buf) && r.flags == 0 && e.waiters.parked == 0 && !e.waiters.sleeping {
		r.state, r.buf = done, nil // what complete would do, without the call
		return
	}
	var err error
	if len(payload) != len(r.buf) {
		err = e.lengthError(r, len(payload))
	}
	e.complete(r, err)
}

// handleMessage handles one message from the transport. It returns false for a message that no correct engine sends. Eager
// messages with a posted receive, the most frequent, are handled here; dispatch handles the others.
func (e *Engine) handleMessage(peer int32, b []byte) bool {
	if len(b) < envelopeBytes {
		return false
	}
	n := len(b) - envelopeBytes
	first, second := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	if d := &e.direct; first == d.first && second == d.second && n <= len(d.buf) && first != 0 {
		d.first, d.length = 0, n
		copyPayload(d.buf, b[envelopeBytes:])
	} else {
		if d.first != 0 {
			e.postDirect()
		}
		source, tag := int32(second), int32(second>>32)
		if uint64(uint32(first)) != e.rec.fastKind || source < 0 || tag < 0 {
			return e.dispatch(peer, b)
		}
		r := e.contexts.table(uint32(first>>32)).TakePosted(source, tag)
		if r == nil {
			return e.dispatch(peer, b)
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

// dispatch handles any message.
func (e *Engine) dispatch(peer int32, b []byte) bool {
	v, w, payload, err := parse(b)
	if err != nil {
		return false
	}
	switch v.kind {
	case kindEager, kindEagerSync, kindRTS:
		return e.handleFirst(peer, v, w, payload)
	case kindFirstFrag:
		return e.handleFirstFrag(peer, v, w, payload)
	case kindFrag:
		return e.handleFrag(peer, payload)
	case kindFIN:
		return e.handleFIN(peer, w)
	case kindAssist:
		return e.handleAssist(peer, w)
	case kindATP:
		return e.handleATP(peer, w)
	case kindDataRequest:
		return e.handleDataRequest(peer, w)
	case kindData:
		return e.handleData(peer, w, payload)
	case kindPause, kindResume:
		e.handlePause(peer, v.kind == kindPause)
	case kindRTR:
		return e.handleRTR(peer, v, w)
	case kindPut:
		return e.handlePut(peer, v, w)
	case kindRTRCancel:
		e.handleRTRCancel(peer, w)
	case kindRTRCancelAck:
		e.handleRTRCancelAck(peer, w)
	case kindClockPing, kindClockPong, kindClockAdjust:
		return e.handleClock(peer, v.kind, w)
	}
	return true
}

// handleFirst matches an eager message or an RTS with a posted receive, or stores it.
func (e *Engine) handleFirst(peer int32, v envelope, w [5]uint64, payload []byte) bool {
	if v.Rank < 0 || v.Tag < 0 || v.kind == kindRTS && w[0] > maxBytes {
		return false
	}
	e.countEpoch(peer, v)
	number := e.countReceived(peer)
	if v.kind != kindRTS {
		e.linkTo(peer).In(len(payload))
	}
	t := e.contexts.table(v.context)
	r := t.TakePosted(v.Rank, v.Tag)
	if r == nil {
		if e.contexts.isEnded(t) {
			e.answerDropped(peer, v.kind, w)
			return true
		}
		m := e.storeUnexpected(peer, v, w, payload, len(payload))
		m.number = number
		t.AddUnexpected(&m.node, v.Rank, v.Tag)
		return true
	}
	if e.rec.trace != nil {
		e.rec.traceMatch(peer, v, number, messageBytes(v, w, payload))
	}
	switch v.kind {
	case kindEager:
		e.deliver(r, v.Rank, v.Tag, payload)
	case kindEagerSync:
		e.sendControl(peer, envelope{kind: kindFIN}, w[0])
		e.deliver(r, v.Rank, v.Tag, payload)
	case kindRTS:
		r.startRendezvous(peer, v, w)
	}
	return true
}
