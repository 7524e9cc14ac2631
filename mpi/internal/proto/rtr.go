package proto

import (
	"errors"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/mpi/internal/proto/internal/cost"
	"github.com/ibrun/ibrun/mpi/internal/proto/internal/rtr"
	"github.com/ibrun/ibrun/mpi/internal/protocols"
	"github.com/ibrun/ibrun/mpi/internal/regcache"
	"github.com/ibrun/ibrun/mpi/internal/wire"
)

// The hints of a context may assert that messages have the lengths of their buffers. There a
// receive of a large message sends an RTR (ready to receive) when it is posted, with the address of
// its buffer. The sender writes the message there immediately. It sends Put first, so that no later
// message is matched with this receive.
//
// Package internal/rtr counts the messages, so that the sender is sure which of them is matched
// with the receive. If it is not sure it ignores the RTR, and the receive gets a message like any
// other.

// countEpoch counts a message that has arrived, if it has an epoch.
func (x *receives) countEpoch(peer int32, v wire.Envelope) {
	if v.Epoch == 0 || x.contexts.ended.IsStale(v.Context) {
		return
	}
	x.rtr.Flow(v.Context, peer).Count(v.Epoch)
}

// sendRTR sends the RTR of a receive that has just been posted, if the sender can use it.
func (x *receives) sendRTR(r *Request) {
	h := x.hints.byContext[r.route.Context]
	if h == nil || !h.ExactLength || r.route.Rank < 0 || r.route.Tag < 0 || int(r.route.Rank) >= len(h.Peers) {
		return
	}
	n := h.Peers[r.route.Rank]
	flow := x.rtr.Known(r.route.Context, n)
	same, wildcards := x.contexts.table(r.route.Context).CountAhead(r.route.Rank, r.route.Tag)
	if wildcards || !flow.MayAnnounce(h.Epoch, same-1) || x.links.connect(n) != nil {
		return
	}
	p := x.links.peer(n)
	if p.path.thresholds.Choose(len(r.buf), false) <= protocols.Fragmented {
		return
	}
	if p.path.caps.Read && !p.path.caps.Write && !p.noRemoteAccess {
		return // to read the message is faster than to receive it in pieces
	}
	t := &r.transfer
	at := unreadable.Remote // the sender cannot write there, and sends the message in pieces
	t.local = regcache.Memory{}
	if p.path.caps.Write && !p.noRemoteAccess {
		if m, err := p.path.acquire(r.buf); err == nil {
			t.local, at = m, m.Remote
		} else if !x.links.canCopyInstead(err) {
			return
		}
	}
	t.peer, t.state, t.total, t.bytes, t.elapsed = n, transferNone, len(r.buf), len(r.buf), cost.Elapsed{}
	r.flags |= rtrSent
	v := wire.Envelope{Kind: wire.RTR, Context: r.route.Context, Match: r.route.Match, Epoch: h.Epoch}
	x.links.sendControl(n, v, r.id(), at.Addr, at.Key, uint64(len(r.buf)), uint64(flow.Received())<<32|uint64(same-1))
}

// handleRTR handles RTR.
func (x *sends) handleRTR(peer int32, v wire.Envelope, w [5]uint64) bool {
	if v.Tag < 0 || w[3] == 0 || w[3] > maxBytes {
		return false
	}
	h := x.hints.byContext[v.Context]
	if h == nil || v.Epoch == 0 || h.Epoch != v.Epoch {
		return true
	}
	t := rtr.Target{Tag: v.Tag, Bytes: int(w[3]), ID: w[0], Key: fabric.RemoteKey{Addr: w[1], Key: w[2]}}
	x.rtr.Flow(v.Context, peer).Add(t, uint32(w[4]>>32), int(uint32(w[4])))
	return true
}

// sendPut sends a message to the buffer of an RTR. It sends Put first.
func (x *sends) sendPut(r *Request, to rtr.Target) error {
	p, t := x.links.peer(r.route.Peer), &r.transfer
	t.peer, t.peerID, t.key = r.route.Peer, to.ID, to.Key
	t.bytes, t.offset, t.assisted, t.claims, t.state, t.deferred = r.size(), 0, 0, nil, transferNone, 0
	t.elapsed, r.out.marks = cost.Elapsed{}, 0
	word := wire.NoWord
	if r.data == nil && p.path.caps.Write && !p.noRemoteAccess && to.Key != unreadable.Remote {
		memory, err := p.path.acquire(r.buf)
		switch {
		case err == nil:
			r.exposed, t.state = memory, transferPutting
			if word = x.reserveWord(r); word != wire.NoWord {
				t.claims = &p.sendWords[word*wordStride]
			}
		case !x.links.canCopyInstead(err):
			return err
		}
	}
	t.local = r.exposed
	o, at := &r.out, r.exposed.Remote
	o.body, o.remaining = nil, nil
	o.packed.clear()
	v := wire.Envelope{Kind: wire.Put, Context: r.route.Context, Match: r.route.Match, Epoch: r.epoch}
	o.header, o.length = wire.Header(v, to.ID, at.Addr, at.Key, r.id(), word)
	p.link.OutBy(r.recordedProtocol(p), r.size())
	p.traceSend(x.rec, r)
	return x.post(r)
}

// startPut must be called when Put has been sent. The payload follows.
func (x *sends) startPut(r *Request) {
	if r.transfer.state == transferPutting {
		x.push(&r.transfer)
	} else {
		x.sendNextData(r)
	}
}

// runPut writes a message to the buffer of an RTR. It does not hold the lock meanwhile.
func (x *sends) runPut(t *transfer) {
	r, ep := t.req, x.endpoint(t)
	buf, local, to, token := r.buf, t.local.Local, t.key, r.id()
	x.rec.Configured.Begun()
	x.mu.Unlock()
	finished, err := ep.Write(buf, local, to, token)
	x.mu.Lock()
	// If not, the completion may have been handled before, and r be in use again.
	if finished || err != nil {
		x.finishPut(r, err)
	}
	x.returned(finished, err)
}

// finishPut ends a write. If the write failed it sends the message in pieces.
func (x *sends) finishPut(r *Request, err error) {
	t := &r.transfer
	t.state = transferNone
	if err != nil {
		if errors.Is(err, fabric.ErrNotSupported) {
			x.links.peer(t.peer).noRemoteAccess = true
		}
		x.sendNextData(r)
		return
	}
	x.links.sendControl(t.peer, wire.Envelope{Kind: wire.ATP}, t.peerID, 1)
	x.completeSend(r)
}

// handlePut handles Put: the sender writes to the buffer of an RTR, or sends the message in pieces
// for it.
func (x *receives) handlePut(peer int32, v wire.Envelope, w [5]uint64) bool {
	r := x.requests.byID(w[0])
	if r == nil || r.send || r.flags&rtrSent == 0 || r.transfer.peer != peer || r.transfer.state != transferNone ||
		r.route.Context != v.Context || r.route.Tag != v.Tag || r.route.Rank != v.Rank || !r.rtrPending() {
		return false
	}
	t := &r.transfer
	if w[4] != wire.NoWord {
		words := x.links.peer(peer).sharedWords(peer, x.links.copier)
		if w[4] >= wire.NoWord/wordStride || w[4]*wordStride >= uint64(len(words)) {
			return false
		}
		t.claims = &words[w[4]*wordStride]
	} else {
		t.claims = nil
	}
	x.countEpoch(peer, v)
	x.rec.Matched(peer, v, x.links.countReceived(peer), t.bytes)
	x.noteMatched(r, x.notes.Take(peer), v.Rank)
	if r.posted.Posted() {
		x.contexts.table(v.Context).RemovePosted(&r.posted)
	}
	t.peerID, t.key, t.offset, t.assisted, t.state = w[3], fabric.RemoteKey{Addr: w[1], Key: w[2]}, 0, -1, transferAwaitPut
	r.route.Peer = peer
	r.status = Status{Source: v.Rank, Tag: v.Tag, Bytes: t.bytes}
	if t.claims != nil {
		t.state = transferReading
		x.push(t)
	}
	return true
}

// rtrPending reports whether the sender may still use the RTR of a receive: no other message has
// been matched with it.
func (r *Request) rtrPending() bool { return r.posted.Posted() || r.revokeErr != nil }

// revokeRTR revokes the RTR of a receive, which is to complete with err, or as cancelled if err is
// nil. It completes when the sender has acknowledged; or with the message, if the sender has begun
// to write.
func (x *receives) revokeRTR(r *Request, err error) {
	if r.flags&rtrRevoked == 0 {
		x.links.sendControl(r.transfer.peer, wire.Envelope{Kind: wire.RTRCancel}, r.id())
	}
	r.flags |= rtrRevoked
	r.revokeErr = err
	if x.links.peer(r.transfer.peer).finalized != nil {
		x.completeRevoked(r)
	}
}

// completeRevokedOf completes the receives that wait for a process that has finalized: for its
// acknowledgement, or for the payload that it was to write. Reads end without it.
func (x *receives) completeRevokedOf(n int32) {
	for _, slab := range x.requests.slabs {
		for i := range slab {
			r := &slab[i]
			reads := r.transfer.state == transferReading && r.transfer.offset < r.transfer.bytes
			if r.state == active && !r.send && r.flags&rtrRevoked != 0 && r.transfer.peer == n && !reads {
				x.completeRevoked(r)
			}
		}
	}
}

// handleRTRCancel handles RTRCancel.
func (x *sends) handleRTRCancel(peer int32, w [5]uint64) {
	x.rtr.Cancel(peer, w[0])
	x.links.sendControl(peer, wire.Envelope{Kind: wire.RTRCancelAck}, w[0])
}

// handleRTRCancelAck handles RTRCancelAck. If the sender has used the RTR its Put has come
// before.
func (x *receives) handleRTRCancelAck(peer int32, w [5]uint64) {
	r := x.requests.byID(w[0])
	if r == nil || r.send || r.flags&rtrRevoked == 0 || r.transfer.peer != peer || r.transfer.state != transferNone ||
		!r.rtrPending() {
		return
	}
	x.completeRevoked(r)
}

// completeRevoked completes a receive whose RTR has been revoked.
func (x *receives) completeRevoked(r *Request) {
	if r.posted.Posted() {
		x.contexts.table(r.route.Context).RemovePosted(&r.posted)
	}
	if r.revokeErr == nil {
		r.status = cancelledStatus
	}
	r.transfer.state = transferNone
	x.requests.complete(r, r.revokeErr)
}

// releaseRTR releases what a receive holds that has sent an RTR.
func (r *Request) releaseRTR() {
	r.flags &^= rtrSent | rtrRevoked
	r.revokeErr = nil
	releaseMemory(&r.transfer.local)
}
