package proto

import "encoding/binary"

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

// dispatch handles any message.
func (e *Engine) dispatch(peer int32, b []byte) bool {
	v, w, payload, err := parse(b)
	if err != nil {
		return false
	}
	ok := e.handle(peer, v, w, payload)
	e.rec.handled(v.kind)
	return ok
}

// handle is dispatch for a message that has been parsed.
func (e *Engine) handle(peer int32, v envelope, w [5]uint64, payload []byte) bool {
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
	case kindClockPing, kindClockPong, kindClockAdjust, kindClockState:
		return e.handleClock(peer, v.kind, w)
	case kindWatch:
		e.handleWatch(peer, v.context)
	case kindLeft:
		return e.handleLeft(peer, v.context, w)
	case kindRefuse:
		return e.handleRefuse(peer, w)
	case kindNote:
		return e.handleNote(peer, w, payload)
	case kindWithdraw:
		return e.handleWithdraw(peer, v, w)
	case kindWithdrawn:
		return e.handleWithdrawn(peer, w)
	case kindFlush:
		e.sendControl(peer, envelope{kind: kindFlushed}, w[0])
	case kindFlushed:
		return e.handleFlushed(peer, w)
	case kindElapsed:
		return e.handleElapsed(peer, w)
	}
	return true
}

// handleFirst matches an eager message or an RTS with a posted receive, or stores it.
func (e *Engine) handleFirst(peer int32, v envelope, w [5]uint64, payload []byte) bool {
	if v.Rank < 0 || v.Tag < 0 || v.kind == kindRTS && w[0]&^allMarks > maxBytes {
		return false
	}
	e.countEpoch(peer, v)
	number, note := e.countReceived(peer), e.takeNote(peer)
	if v.kind != kindRTS {
		e.linkTo(peer).In(len(payload))
	}
	t := e.contexts.table(v.context)
	r := t.TakePosted(v.Rank, v.Tag)
	if r == nil {
		if e.contexts.isEnded(t) || e.departures.left[v.context] {
			e.noteDropped(v, note)
			e.refuse(peer, v, w, e.contexts.isFreed(v.context))
			return true
		}
		m := e.storeUnexpected(peer, v, w, payload, len(payload))
		m.number = number
		e.unexpected.setNote(m, note)
		t.AddUnexpected(&m.node, v.Rank, v.Tag)
		return true
	}
	if e.rec.trace != nil {
		e.rec.traceMatch(peer, v, number, messageBytes(v, w, payload))
	}
	r.noteMatched(note, v.Rank)
	switch v.kind {
	case kindEager:
		e.deliver(r, v.Rank, v.Tag, payload)
	case kindEagerSync:
		e.sendControl(peer, envelope{kind: kindFIN}, w[0])
		e.deliver(r, v.Rank, v.Tag, payload)
	case kindRTS:
		r.startRendezvous(peer, v, w, true)
	}
	return true
}
