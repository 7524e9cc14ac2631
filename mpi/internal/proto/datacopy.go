package proto

import "github.com/ibrun/ibrun/mpi/internal/wire"

// Where the receiver cannot read the sender's memory it requests the payload of an RTS, and the
// sender sends it through the transport in pieces.

// requestData asks the sender to send the payload in pieces.
func (x *receives) requestData(t *transfer) {
	t.offset, t.state = 0, transferCopying
	x.links.sendControl(t.peer, wire.Envelope{Kind: wire.DataRequest}, t.peerID, t.req.id(), uint64(t.bytes))
}

// handleDataRequest handles DataRequest.
func (x *sends) handleDataRequest(peer int32, w [5]uint64) bool {
	r := x.requests.byID(w[0])
	if r == nil || !r.awaitsPeer(peer) || w[2] > uint64(r.size()) {
		return false
	}
	if r.transfer.running {
		r.transfer.deferred, r.transfer.deferredWords = wire.DataRequest, w
		return true
	}
	x.startData(r, w)
	return true
}

// startData starts to send the payload in pieces.
func (x *sends) startData(r *Request, w [5]uint64) {
	t := &r.transfer
	if t.queued {
		x.remove(t)
	}
	t.peerID, t.bytes, t.offset = w[1], int(w[2]), 0
	x.sendNextData(r)
}

// sendNextData sends the next piece. After the last one it completes the send.
func (x *sends) sendNextData(r *Request) {
	t := &r.transfer
	if t.offset == t.bytes {
		x.completeSend(r)
		return
	}
	r.prepareData(x.links.peer(r.route.Peer))
	if err := x.post(r); err != nil {
		x.links.sendFailed(r.route.Peer, &r.out, err)
	}
}

// prepareData prepares the message with the next piece.
func (r *Request) prepareData(p *peer) {
	t := &r.transfer
	from := t.offset
	t.offset = min(from+p.path.thresholds.MaxData, t.bytes)
	r.out.header, r.out.length = wire.Header(wire.Envelope{Kind: wire.Data}, t.peerID, uint64(from))
	if r.data != nil {
		r.out.packed = packed{r.data, from, t.offset - from, 0}
		return
	}
	r.out.body = r.buf[from:t.offset]
}

// handleData handles Data: the next piece of a payload.
func (x *receives) handleData(peer int32, w [5]uint64, payload []byte) bool {
	r := x.requests.byID(w[0])
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
	t.offset += r.store(t.offset, payload)
	if t.offset < t.bytes {
		return true
	}
	x.finishTransfer(r, nil)
	return true
}
