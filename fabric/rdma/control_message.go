package rdma

import (
	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/messages"
	"github.com/ibrun/ibrun/fabric/rdma/internal/posting"
)

// Control messages are messages without data: credit updates, the RTU that completes a connection, and the DREQ that ends it. A
// peer reserves one receive slot for them. So at most one may be in flight whose receipt the peer has not confirmed
// (messages.Inbound.ControlUnacked). A DREQ may also take the slot of a data message if there is a credit.

// sendControl sends a control message, or has it sent as soon as the peer has a slot for it.
//
// If there is no room, it looks for requests that have completed, and tries once more: the caller may not poll again before the
// peer has sent something, and the peer may have to wait for this message before.
func (e *endpoint) sendControl(k messages.Kind) {
	d := e.d
	switch {
	case e.trySendControl(k), e.mayControl(k) && d.completions.completeSends() && e.trySendControl(k):
	case k == messages.DREQ:
		e.disconnect = disconnectDue
		e.trySendCM(cm.DREQ, cm.QP{}) // also as a datagram, since nothing may poll this domain any more
	case !e.msgs.In.ControlUnacked && e.conn.State == cm.StateEstablished:
		e.rtuDue = e.rtuDue || k == messages.RTU
		d.controlDue = append(d.controlDue, e)
	}
}

// trySendControl sends a control message if the peer has a slot for it, and reports whether it did. A credit update that was
// not sent is tried again when there are more credits to grant.
func (e *endpoint) trySendControl(k messages.Kind) bool {
	d := e.d
	if !e.mayControl(k) {
		return false
	}
	slot, ok := d.poster.Sends.Take()
	if !ok {
		return false
	}
	b := d.poster.Sends.Mem(slot)[:messages.HeaderBytes]
	h := e.msgs.Header(k)
	h.Put(b)
	r := posting.Request{Kind: posting.Control, Slot: slot}
	if k == messages.DREQ {
		r.Kind = posting.Disconnect
	}
	if _, err := d.poster.Message(&e.lanes, r, b, posting.ShareAll, k == messages.DREQ, d.clock.Polls); !e.posted(err) {
		d.poster.Sends.Give(slot)
		return false
	}
	e.msgs.In.Granted, e.msgs.In.ControlGrant, e.msgs.In.ControlUnacked = h.Grant, h.Grant, true
	if k == messages.DREQ {
		e.disconnect = disconnectSent
	}
	e.rtuDue = false
	d.poster.Ring(&e.lanes)
	return true
}

// mayControl reports whether the peer has a slot for a control message.
func (e *endpoint) mayControl(k messages.Kind) bool {
	return e.conn.State == cm.StateEstablished && (!e.msgs.In.ControlUnacked || k == messages.DREQ && e.msgs.Out.HasCredit())
}

// sendControlDue sends the control messages for which there was no slot or no room in a queue before.
func (d *domain) sendControlDue() {
	due := d.controlDue
	d.controlDue = nil
	for _, e := range due {
		if e.rtuDue {
			e.sendControl(messages.RTU)
		} else if e.msgs.In.CreditDue() || e.retry.Failed > 0 {
			e.sendControl(messages.Credit)
		}
	}
}
