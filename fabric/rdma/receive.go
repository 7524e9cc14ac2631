package rdma

import (
	"fmt"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/messages"
	"github.com/ibrun/ibrun/verbs"
)

// handleReceives handles the n completions that pollReceives has found, and returns err. Messages become events: in the slice
// of the caller of Poll while it has room, in the queue afterwards.
func (d *domain) handleReceives(n int, err error) error {
	for i := range d.wcs[:n] {
		d.handleReceive(&d.wcs[i])
	}
	if err != nil {
		return fmt.Errorf("fabric/rdma: %w", err)
	}
	return nil
}

// handleReceive handles the completion of a message or of a datagram.
func (d *domain) handleReceive(wc *verbs.WC) {
	r := d.rails[0]
	slot := uint32(wc.ID)
	var e *endpoint
	if q := d.byQPN.find(r, wc.QPN); q != nil {
		e = q.ep
	} else if r.IsDatagram(wc.QPN) {
		d.handleDatagram(wc)
		return
	}
	if d.recvs.srq == nil && !d.receivedOwn(e, wc) {
		return
	}
	if e == nil || wc.Status != verbs.StatusSuccess {
		d.recvs.post(e, slot)
		if e != nil && e.teardown == nil {
			d.receiveFailed(e, wc)
		}
		return
	}
	e.keepalive.Alive = true
	h, err := messages.ParseHeader(d.recvs.Mem(slot)[:wc.Len])
	if err == nil {
		err = e.in.Receive(&h)
	}
	if err == nil {
		err = e.out.ReceiveGrant(h.Grant)
	}
	if err != nil {
		d.recvs.post(e, slot)
		d.declareDown(e, fmt.Errorf("fabric/rdma: peer %d: %w", e.peer, err))
		return
	}
	if e.conn.State == cm.StateREPSent { // any message confirms the connection, as the RTU does
		e.conn.Established(e.conn.PeerQP)
		d.established(e)
		if e.in.CreditDue() || e.retry.Failed > 0 {
			d.sendControl(e, messages.Credit) // for slots that were freed since the REP, or to end a series of failures
		}
	}
	// If a message was lost, it was sent again before this one: messages arrive in order. A control message has the number of the
	// next data message, so it shows that none is missing.
	e.retry.Arrived()
	final := e.peerClosing && e.in.Received == e.finalSeq
	if h.Kind == messages.Data {
		d.receiveData(e, slot, wc.Len-messages.HeaderBytes, h.NeedsCredits)
	} else {
		d.recvs.post(e, slot)
		if e.in.CreditDue() { // it was not sent while our last control message was unconfirmed; this one may confirm that
			d.sendControl(e, messages.Credit)
		}
	}
	if h.Kind == messages.DREQ || final {
		d.declareDown(e, fmt.Errorf("fabric/rdma: peer %d: %w", e.peer, fabric.ErrPeerClosed))
	}
}

// receiveFailed makes the connection again because a receive has failed.
func (d *domain) receiveFailed(e *endpoint, wc *verbs.WC) {
	if wc.Status != verbs.StatusFlushed { // otherwise something else has failed
		e.countWorked()
		e.retry.Unfinished.Receive = true
	}
	d.declareBroken(e, wc.Err())
}

// receiveData delivers or queues a data message.
func (d *domain) receiveData(e *endpoint, slot, bytes uint32, needsCredits bool) {
	e.held++
	if d.events.len() == 0 && d.events.filled < len(d.events.out) && !e.discarding {
		d.events.addMessage(e, slot, d.recvs.payload(slot, bytes))
	} else {
		d.events.put(queuedEvent{kind: fabric.Message, ep: e, slot: slot, bytes: bytes})
	}
	if needsCredits {
		d.growWindow(e)
	}
}

// releaseBorrowed frees the slots of the messages that the last Poll delivered. Their bytes are not valid any more.
func (d *domain) releaseBorrowed() {
	if len(d.events.borrowed) > 0 {
		d.recvs.postBorrowed(d.events.borrowed) // before the credits for them
		for _, b := range d.events.borrowed {
			d.recvSlotFreed(b.ep)
		}
		d.events.borrowed = d.events.borrowed[:0]
	}
	d.loopback.Release()
}

// freeRecvSlot posts the slot of a data message again that was dropped.
func (d *domain) freeRecvSlot(e *endpoint, slot uint32) {
	d.recvs.post(e, slot)
	d.recvSlotFreed(e)
}

// recvSlotFreed is called when the slot of a data message was posted again.
func (d *domain) recvSlotFreed(e *endpoint) {
	e.held--
	if e.in.Window == 0 {
		d.recvs.reserved-- // the peer was released: this was one of the last slots reserved for it
		return
	}
	e.in.Freed++
	if e.in.CreditDue() {
		d.sendControl(e, messages.Credit)
	}
}
