package proto

import (
	"errors"
	"sync/atomic"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/mpi/internal/protocols"
	"github.com/ibrun/ibrun/mpi/internal/wire"
)

// Where a read occupies the receiver's processor, sender and receiver move a message together: the
// receiver reads pieces from the front while the sender writes pieces from the back. Both claim
// pieces in a shared word, so each piece is moved once, and the transfer does not depend on the
// sender: one that is busy elsewhere claims nothing.

// requestAssist asks the sender to write from the back while this side reads from the front.
func (x *receives) requestAssist(t *transfer, word uint64) {
	words := x.links.peer(t.peer).sharedWords(t.peer, x.links.copier)
	if i := word * wordStride; word < wire.NoWord/wordStride && i < uint64(len(words)) && t.bytes >= protocols.MinShared {
		t.claims = &words[i]
		to := t.local.Remote
		x.links.sendControl(t.peer, wire.Envelope{Kind: wire.Assist}, t.peerID, t.req.id(), to.Addr, to.Key, uint64(t.bytes))
	}
}

// handleAssist handles Assist: the receiver asks this side to write from the back.
func (x *sends) handleAssist(peer int32, w [5]uint64) bool {
	r := x.requests.byID(w[0])
	if r == nil || !r.awaitsPeer(peer) || r.out.kind() != wire.RTS || r.word < 0 || w[4] == 0 || w[4] > uint64(len(r.buf)) {
		return false
	}
	t := &r.transfer
	if t.queued || t.running {
		return false
	}
	t.peer, t.peerID, t.key = peer, w[1], fabric.RemoteKey{Addr: w[2], Key: w[3]}
	t.bytes, t.assisted, t.local = int(w[4]), 0, r.exposed
	t.claims = &x.links.peer(peer).sendWords[r.word*wordStride]
	x.push(t)
	return true
}

// runAssist writes pieces from the back until all are claimed, and sends ATP with their number.
func (x *sends) runAssist(t *transfer) {
	ep, buf := x.links.peer(t.peer).ep, t.req.buf
	var err error
	claimed := 0
	elapsed, moved := t.elapsed, 0
	t.running = true
	x.mu.Unlock()
	began := elapsed.Begin(x.links.now)
	n := protocols.PieceCount(t.bytes)
	for i := protocols.ClaimBack(t.claims, n); i >= 0 && err == nil; i = protocols.ClaimBack(t.claims, n) {
		claimed++
		from, to := protocols.PieceBounds(i, t.bytes)
		key := t.key
		key.Addr += uint64(from)
		if _, err = ep.Write(buf[from:to], t.local.Local, key, 0); err == nil {
			t.assisted++
			moved += to - from
		}
	}
	elapsed.End(x.links.now, began, moved)
	x.mu.Lock()
	if t.running = false; elapsed.Marks != 0 {
		x.links.peer(t.peer).sentPart(t.req.size(), elapsed.Marks, protocols.RendezvousShared, elapsed.Spent, 0, moved)
	}
	if claimed > 0 {
		x.links.sendControl(t.peer, wire.Envelope{Kind: wire.ATP}, t.peerID, uint64(t.assisted))
	}
	switch {
	case t.deferred == wire.FIN:
		x.completeSend(t.req)
	case t.deferred == wire.DataRequest:
		x.startData(t.req, t.deferredWords)
	}
	t.deferred = 0
}

// readFront reads pieces from the front until all are claimed. It returns how many bytes these are.
func readFront(ep fabric.Endpoint, t *transfer, buf []byte) (moved int, _ error) {
	n := protocols.PieceCount(t.bytes)
	for i := protocols.ClaimFront(t.claims, n); i >= 0; i = protocols.ClaimFront(t.claims, n) {
		if err := readPiece(ep, t, buf, i); err != nil {
			return moved, err
		}
		from, to := protocols.PieceBounds(i, t.bytes)
		moved += to - from
	}
	return moved, nil
}

func readPiece(ep fabric.Endpoint, t *transfer, buf []byte, i int) error {
	from, to := protocols.PieceBounds(i, t.bytes)
	key := t.key
	key.Addr += uint64(from)
	_, err := ep.Read(buf[from:to], t.local.Local, key, 0)
	return err
}

// finishReadShare must be called when this side has read its share. If the sender has claimed
// pieces, its ATP is still to come, or has come before.
func (x *receives) finishReadShare(t *transfer) {
	if t.claims == nil || atomic.LoadUint64(t.claims)>>32 == 0 {
		x.finishRead(t.req, nil)
		return
	}
	t.offset = t.bytes // this side has finished
	if t.assisted >= 0 {
		x.finishShared(t)
	}
}

// handleATP handles ATP: the sender has written as many of its claimed pieces as the message says,
// or the whole message into the buffer of an RTR.
func (x *receives) handleATP(peer int32, w [5]uint64) bool {
	r := x.requests.byID(w[0])
	if r == nil || r.send || r.transfer.peer != peer {
		return false
	}
	t := &r.transfer
	if t.state == transferAwaitPut {
		x.finishTransfer(r, nil)
		return true
	}
	if t.state != transferReading {
		return false
	}
	if t.claims == nil || t.assisted >= 0 || w[1] > uint64(protocols.PieceCount(t.bytes)) {
		return false
	}
	t.assisted = int(w[1])
	if t.offset == t.bytes {
		x.finishShared(t)
	}
	return true
}

// finishShared ends a transfer by both sides. It reads the pieces that the sender has claimed but
// could not write.
func (x *receives) finishShared(t *transfer) {
	p := x.links.peer(t.peer)
	n := protocols.PieceCount(t.bytes)
	claimed := min(int(atomic.LoadUint64(t.claims)>>32), n)
	var err error
	for i := n - claimed; i < n-t.assisted && err == nil && !p.noRemoteAccess; i++ {
		err = readPiece(p.ep, t, t.req.buf, i)
	}
	if p.noRemoteAccess = p.noRemoteAccess || errors.Is(err, fabric.ErrNotSupported); p.noRemoteAccess {
		x.requestData(t)
		return
	}
	x.finishRead(t.req, err)
}

// fallBackToCopy requests the payload in pieces after the first read was refused. It claims all
// pieces, so that the sender takes no more. The sender sends again what it may have written
// already.
func (x *receives) fallBackToCopy(t *transfer) {
	if t.claims != nil {
		for n := protocols.PieceCount(t.bytes); protocols.ClaimFront(t.claims, n) >= 0; {
		}
		if atomic.LoadUint64(t.claims)>>32 != 0 {
			t.offset = t.bytes
			if t.assisted >= 0 {
				x.finishShared(t)
			}
			return // the sender is writing; its ATP will come
		}
		t.claims = nil
	}
	x.requestData(t)
}
