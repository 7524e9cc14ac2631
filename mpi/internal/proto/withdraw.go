package proto

import "github.com/ibrun/ibrun/mpi/internal/wire"

// A send that waits for its receiver, since its message is an RTS or synchronous, can be withdrawn:
// the sender sends Withdraw. It follows the message on the same connection. If the receiver still
// stores the message as unexpected, it drops the message and answers with Withdrawn: the send ends
// as cancelled. Otherwise the message has been matched, and the send ends as usual.

// withdraw ends a send as cancelled if its message has not been matched. A generalized request,
// which has no message, ends later.
func (x *sends) withdraw(r *Request) {
	if r.state == active && r.flags&withdrawing == 0 && r.route.Peer != ProcNull {
		r.flags |= withdrawing
		x.sendWithdraw(r)
	}
}

// sendWithdraw sends Withdraw if the send waits for its receiver. A message of another kind ends
// when the transport takes it.
func (x *sends) sendWithdraw(r *Request) {
	if k := r.out.kind(); k == wire.RTS || k == wire.EagerSync {
		x.links.sendControl(r.route.Peer, wire.Envelope{Kind: wire.Withdraw, Context: r.route.Context, Match: r.route.Match}, r.id())
	}
}

// waitsFor reports whether m is the message of a peer's send, named by its id, that waits for the
// receiver.
func (m *unexpectedMessage) waitsFor(peer int32, id uint64) bool {
	return m.peer == peer && (m.v.Kind == wire.RTS && m.w[3] == id || m.v.Kind == wire.EagerSync && m.w[0] == id)
}

// handleWithdraw handles Withdraw. t is the table of its context.
func (s *unexpectedStore) handleWithdraw(t *table, peer int32, v wire.Envelope, w [5]uint64) bool {
	if v.Rank < 0 || v.Tag < 0 {
		return false
	}
	for m := range t.Unexpected(v.Rank, v.Tag) {
		if m.waitsFor(peer, w[0]) {
			t.RemoveUnexpected(&m.node)
			s.drop(m)
			s.links.sendControl(peer, wire.Envelope{Kind: wire.Withdrawn}, w[0])
			break
		}
	}
	return true
}

// handleWithdrawn handles Withdrawn.
func (x *sends) handleWithdrawn(peer int32, w [5]uint64) bool {
	r := x.requests.byID(w[0])
	if r == nil || !r.awaitsPeer(peer) || r.flags&withdrawing == 0 || r.transfer.running {
		return false
	}
	x.releaseSend(r)
	r.status = cancelledStatus
	x.requests.complete(r, nil)
	return true
}

// cancel is Cancel for a request that is not inactive.
func (e *Engine) cancel(r *Request) {
	switch {
	case r.send:
		e.sends.withdraw(r)
	case !r.posted.Posted():
	case r.flags&rtrSent != 0:
		e.receives.revokeRTR(r, nil)
	default:
		e.contexts.table(r.route.Context).RemovePosted(&r.posted)
		r.status = cancelledStatus
		e.requests.complete(r, nil)
	}
}
