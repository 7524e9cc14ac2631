package proto

// Where the receiver cannot read the sender's memory it requests the payload of an RTS, and the sender sends it through the
// transport in pieces.

// requestData asks the sender to send the payload in pieces.
func (e *Engine) requestData(t *transfer) {
	t.offset, t.state = 0, transferCopying
	e.sendControl(t.peer, envelope{kind: kindDataRequest}, t.peerID, t.req.id(), uint64(t.bytes))
}

// handleDataRequest handles DATA_REQUEST.
func (e *Engine) handleDataRequest(peer int32, w [5]uint64) bool {
	r := e.requests.byID(w[0])
	if r == nil || !r.awaitsPeer(peer) || w[2] > uint64(len(r.buf)) {
		return false
	}
	if r.transfer.running {
		r.transfer.deferred, r.transfer.deferredWords = kindDataRequest, w
		return true
	}
	e.startData(r, w)
	return true
}

// startData starts to send the payload in pieces.
func (e *Engine) startData(r *Request, w [5]uint64) {
	t := &r.transfer
	if t.queued {
		e.transfers.remove(t)
	}
	t.peerID, t.bytes, t.offset = w[1], int(w[2]), 0
	e.sendNextData(r)
}

// sendNextData sends the next piece. After the last one it completes the send.
func (e *Engine) sendNextData(r *Request) {
	t := &r.transfer
	if t.offset == t.bytes {
		e.completeSend(r)
		return
	}
	from := t.offset
	t.offset = min(from+e.peer(r.route.Peer).path.thresholds.MaxData, t.bytes)
	r.out.header, r.out.length = header(envelope{kind: kindData}, t.peerID, uint64(from))
	r.out.body = r.buf[from:t.offset]
	if err := e.post(r.route.Peer, &r.out); err != nil {
		e.sendFailed(r.route.Peer, &r.out, err)
	}
}

// handleData handles DATA: the next piece of a payload.
func (e *Engine) handleData(peer int32, w [5]uint64, payload []byte) bool {
	r := e.requests.byID(w[0])
	if r == nil || r.send || r.transfer.peer != peer {
		return false
	}
	t := &r.transfer
	if t.state == transferAwaitPut {
		t.state = transferCopying
	}
	if t.state != transferCopying {
		return false
	}
	if w[1] != uint64(t.offset) || len(payload) > t.bytes-t.offset {
		return false
	}
	t.offset += copy(r.buf[t.offset:], payload)
	if t.offset < t.bytes {
		return true
	}
	e.finishTransfer(r, nil)
	return true
}
