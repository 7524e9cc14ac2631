package rdma

import (
	"fmt"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/messages"
	"github.com/ibrun/ibrun/verbs"
)

// handleReceives handles the n completions that a poll has found, and returns its error. Messages become events: in the slice
// of the caller of Poll while it has room, in the queue afterwards.
func (d *domain) handleReceives(n int, err error) error {
	for i := range d.polling.wcs[:n] {
		d.handleReceive(&d.polling.wcs[i])
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
	if q := d.poster.Find(&r.room, wc.QPN); q != nil {
		e = d.eps[q.Peer]
	} else if r.IsDatagram(wc.QPN) {
		d.handleDatagram(wc)
		return
	}
	if d.recvs.SRQ == nil && !d.receivedOwn(e, wc) {
		return
	}
	if e == nil {
		d.recvs.Post(nil, slot)
		return
	}
	if wc.Status != verbs.StatusSuccess {
		d.recvs.Post(&e.msgs, slot)
		if e.teardown == nil {
			d.receiveFailed(e, wc)
		}
		return
	}
	e.keepalive.Alive = true
	h, err := messages.ParseHeader(d.recvs.Mem(slot)[:wc.Len])
	if err == nil {
		err = e.msgs.In.Receive(&h)
	}
	if err == nil {
		err = e.msgs.Out.ReceiveGrant(h.Grant)
	}
	if err != nil {
		d.recvs.Post(&e.msgs, slot)
		e.declareDown(fmt.Errorf("fabric/rdma: peer %d: %w", e.peer, err))
		return
	}
	if e.conn.State == cm.StateREPSent { // any message confirms the connection, as the RTU does
		e.conn.Established(e.conn.PeerQP)
		d.established(e)
		if e.msgs.In.CreditDue() || e.retry.Failed > 0 {
			e.sendControl(messages.Credit) // for slots that were freed since the REP, or to end a series of failures
		}
	}
	// If a message was lost, it was sent again before this one: messages arrive in order. A control message has the number of the
	// next data message, so it shows that none is missing.
	e.retry.Arrived()
	final := e.peerClosing && e.msgs.In.Received == e.finalSeq
	if h.Kind == messages.Data {
		d.events.Receive(&d.recvs, &e.msgs, slot, wc.Len-messages.HeaderBytes)
		if h.NeedsCredits {
			d.recvs.GrowWindow(&e.msgs)
		}
	} else {
		d.recvs.Post(&e.msgs, slot)
		if e.msgs.In.CreditDue() { // it was not sent while our last control message was unconfirmed; this one may confirm that
			e.sendControl(messages.Credit)
		}
	}
	if h.Kind == messages.DREQ || final {
		e.declareDown(fmt.Errorf("fabric/rdma: peer %d: %w", e.peer, fabric.ErrPeerClosed))
	}
}

// receiveFailed makes the connection again because a receive has failed.
func (d *domain) receiveFailed(e *endpoint, wc *verbs.WC) {
	if wc.Status != verbs.StatusFlushed { // otherwise something else has failed
		e.countWorked()
		e.retry.Unfinished.Receive = true
	}
	e.declareBroken(wc.Err())
}

// receivedOwn takes the slot of a completion out of the receive queue of its connection. It returns false if there is no message
// in it: because the completion is of a queue pair that was closed, or because the receive has failed.
func (d *domain) receivedOwn(e *endpoint, wc *verbs.WC) bool {
	if e == nil {
		return false
	}
	outcome := d.recvs.Completed(&e.msgs, wc)
	if outcome != messages.Stale && e.teardown != nil && e.msgs.Posted() == 0 {
		d.cm.closing.LastCompletion(e.teardown)
	}
	if outcome == messages.Failed && e.teardown == nil {
		d.receiveFailed(e, wc)
	}
	return outcome == messages.Arrived
}
