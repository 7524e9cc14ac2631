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
func (c *completions) handleReceives(n int, err error) error {
	for i := range c.wcs[:n] {
		c.handleReceive(&c.wcs[i])
	}
	if err != nil {
		return fmt.Errorf("fabric/rdma: %w", err)
	}
	return nil
}

// handleReceive handles the completion of a message or of a datagram.
func (c *completions) handleReceive(wc *verbs.WC) {
	r := c.all[0]
	slot := uint32(wc.ID)
	var e *endpoint
	if q := c.poster.Find(&r.room, wc.QPN); q != nil {
		e = c.eps[q.Peer]
	} else if r.IsDatagram(wc.QPN) {
		c.cm.received(wc)
		return
	}
	if c.recvs.SRQ == nil && !c.receivedOwn(e, wc) {
		return
	}
	if e == nil {
		c.recvs.Post(nil, slot)
		return
	}
	if wc.Status != verbs.StatusSuccess {
		c.recvs.Post(&e.msgs, slot)
		if e.teardown == nil {
			e.receiveFailed(wc)
		}
		return
	}
	e.keepalive.Alive = true
	h, err := messages.ParseHeader(c.recvs.Mem(slot)[:wc.Len])
	if err == nil {
		err = e.msgs.In.Receive(&h)
	}
	if err == nil {
		err = e.msgs.Out.ReceiveGrant(h.Grant)
	}
	if err != nil {
		c.recvs.Post(&e.msgs, slot)
		e.declareDown(fmt.Errorf("fabric/rdma: peer %d: %w", e.peer, err))
		return
	}
	if e.conn.State == cm.StateREPSent { // any message confirms the connection, as the RTU does
		e.conn.Established(e.conn.PeerQP)
		e.established()
		if e.msgs.In.CreditDue() || e.retry.Failed > 0 {
			e.sendControl(messages.Credit) // for slots that were freed since the REP, or to end a series of failures
		}
	}
	// If a message was lost, it was sent again before this one: messages arrive in order. A control message has the number of the
	// next data message, so it shows that none is missing.
	e.retry.Arrived()
	final := e.peerClosing && e.msgs.In.Received == e.finalSeq
	if h.Kind == messages.Data {
		c.events.Receive(c.recvs, &e.msgs, slot, wc.Len-messages.HeaderBytes)
		if h.NeedsCredits {
			c.recvs.GrowWindow(&e.msgs)
		}
	} else {
		c.recvs.Post(&e.msgs, slot)
		if e.msgs.In.CreditDue() { // it was not sent while our last control message was unconfirmed; this one may confirm that
			e.sendControl(messages.Credit)
		}
	}
	if h.Kind == messages.DREQ || final {
		e.declareDown(fmt.Errorf("fabric/rdma: peer %d: %w", e.peer, fabric.ErrPeerClosed))
	}
}

// receiveFailed makes the connection again because a receive has failed.
func (e *endpoint) receiveFailed(wc *verbs.WC) {
	if wc.Status != verbs.StatusFlushed { // otherwise something else has failed
		e.countWorked()
		e.retry.Unfinished.Receive = true
	}
	e.declareBroken(wc.Err())
}

// receivedOwn takes the slot of a completion out of the receive queue of its connection. It returns false if there is no message
// in it: because the completion is of a queue pair that was closed, or because the receive has failed.
func (c *completions) receivedOwn(e *endpoint, wc *verbs.WC) bool {
	if e == nil {
		return false
	}
	outcome := c.recvs.Completed(&e.msgs, wc)
	if outcome != messages.Stale && e.teardown != nil && e.msgs.Posted() == 0 {
		c.cm.closing.LastCompletion(e.teardown)
	}
	if outcome == messages.Failed && e.teardown == nil {
		e.receiveFailed(wc)
	}
	return outcome == messages.Arrived
}
