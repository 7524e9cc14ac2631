package proto

import "sync/atomic"

// The copy form of a large message, for where the receiver cannot read the sender's memory: the sender sends it in
// pieces through the transport.

// askForCopies asks the sender to send the message.
func (e *Engine) askForCopies(t *transfer) {
	t.offset, t.form = 0, copying
	e.note(t.peer, envelope{kind: kindSend}, t.id, t.req.id(), uint64(t.bytes))
}

// withdrawHelp goes over to copies after the first read was refused. All pieces are claimed, so that the sender
// takes no more; what it may have written already is sent again.
func (e *Engine) withdrawHelp(t *transfer) {
	if t.claims != nil {
		for n := pieces(t.bytes); claimFront(t.claims, n) >= 0; {
		}
		if atomic.LoadUint64(t.claims)>>32 != 0 {
			t.offset = t.bytes
			if t.helping >= 0 {
				e.joined(t)
			}
			return // the sender writes, and will say when it has finished
		}
		t.claims = nil
	}
	e.askForCopies(t)
}

// sendCopies handles SEND: the receiver wants the message in pieces.
func (e *Engine) sendCopies(peer int32, w [5]uint64) bool {
	r := e.byID(w[0])
	if r == nil || !r.awaits(peer) || w[2] > uint64(len(r.buf)) {
		return false
	}
	if r.move.running {
		r.move.after, r.move.wanted = kindSend, w
		return true
	}
	e.copyOut(r, w)
	return true
}

func (e *Engine) copyOut(r *Request, w [5]uint64) {
	if r.move.queued {
		e.moves.remove(&r.move)
	}
	r.move.id, r.move.bytes, r.move.offset = w[1], int(w[2]), 0
	e.nextPiece(r)
}

// nextPiece sends the next piece, and completes the send after the last.
func (e *Engine) nextPiece(r *Request) {
	t := &r.move
	if t.offset == t.bytes {
		e.sentAll(r)
		return
	}
	from := t.offset
	t.offset = min(from+e.peer(r.route.Peer).way.rules.MaxData, t.bytes)
	r.out.header, r.out.length = header(envelope{kind: kindData}, t.id, uint64(from))
	r.out.body = r.buf[from:t.offset]
	if err := e.post(r.route.Peer, &r.out); err != nil {
		e.lost(r.route.Peer, &r.out, err)
	}
}

// dataCame handles DATA: a piece of a message, in order.
func (e *Engine) dataCame(peer int32, w [5]uint64, payload []byte) bool {
	r := e.byID(w[0])
	if r == nil || r.send || r.move.peer != peer {
		return false
	}
	t := &r.move
	if t.form == taking {
		t.form = copying
	}
	if t.form != copying {
		return false
	}
	if w[1] != uint64(t.offset) || len(payload) > t.bytes-t.offset {
		return false
	}
	t.offset += copy(r.buf[t.offset:], payload)
	if t.offset < t.bytes {
		return true
	}
	e.received(r, nil)
	return true
}
