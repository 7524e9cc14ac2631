package rdma

import (
	"fmt"
	"slices"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/messages"
)

// A domain may be unable to continue with a peer that was connected although the peer's process exists: because the device of the
// first rail is lost, here or at the peer, or because the link stays down. If the user of the domain has another transport (see
// Takeover.Await), it takes over. Package auto describes the protocol. The part of this domain is:
//
//  1. leave begins. From now on Send returns fabric.ErrAgain, Reads and Writes end with fabric.ErrNotSupported, and no connection
//     is made to the peer. The queue pairs are closed as always, so all that has arrived is received.
//  2. Left returns what the two sides tell each other, once nothing can change it any more: the queue pairs are closed, and the
//     caller of Poll has got all messages of the peer.
//  3. Unreceived returns the messages that the peer has not received. Like those that are sent again over another connection,
//     they are in slots, which outlive queue pairs.
//  4. Abandon ends the endpoint.
//
// A message is in a slot until the device of the peer has acknowledged it. If that device is lost before the peer has polled its
// completion, and the completion cannot be polled any more, the message is nowhere. Handover tells: Kept is larger than Received
// of the other side. Then the peers are lost for each other.

// mayTakeOver reports whether another transport may take over a peer that was connected.
func (t *Takeover) mayTakeOver(e *endpoint) bool {
	return t.awaited && e.attempt.done && !e.peerClosing && e.ended.Load() == nil
}

// ended is called when an endpoint has ended, whether it is handed over or not.
func (t *Takeover) ended(e *endpoint) {
	t.leavers = slices.DeleteFunc(t.leavers, func(o *endpoint) bool { return o == e })
}

// leaving is the state of an endpoint that is handed over to another transport.
type leaving struct {
	err  error // why
	left bool  // the queue pairs are closed, and everything that has arrived was received
}

// Handover is the state of the messages with a peer when the connection has ended for good. Numbers count messages, and wrap
// around.
type Handover struct {
	Received uint32 // messages that have arrived, which is the number of the next
	Kept     uint32 // number of the first message to the peer that can be sent again
	Sent     uint32 // messages to the peer, including those
}

// giveUp ends the attempts to reach a peer that was connected: another transport takes over, or the peer is lost.
func (t *Takeover) giveUp(e *endpoint, err error) {
	if t.mayTakeOver(e) {
		t.leave(e, err)
	} else {
		e.declareDown(err)
	}
}

// leave begins to hand over a peer to another transport.
func (t *Takeover) leave(e *endpoint, err error) {
	if e.leaving != nil {
		return
	}
	t.cm.poster.Mu.Lock()
	e.leaving = &leaving{err: err}
	t.cm.poster.Mu.Unlock()
	e.attempt.held = true
	t.leavers = append(t.leavers, e)
	t.cm.connecting.Remove(&e.retry.timer)
	switch {
	case e.teardown != nil: // finishTeardown goes on
	case e.lanes.Queues == nil:
		t.hasLeft(e)
	default:
		e.declareBroken(err)
	}
}

// hasLeft is called when the queue pairs of an endpoint that is handed over are closed.
func (t *Takeover) hasLeft(e *endpoint) {
	e.conn.Reset()
	e.leaving.left, e.disconnect = true, disconnectDone
	e.endTransfers(errAbandoned.err)
	t.cm.clock.FastPolls = 0
}

// leaveLost is leave for an endpoint whose device is lost.
func (t *Takeover) leaveLost(e *endpoint, err error) {
	t.leave(e, err)
	if !e.leaving.left {
		for _, q := range e.lanes.Queues {
			_ = q.QP.Close() // it accesses no memory any more: see peers.stopReceiving
		}
		e.keepUnacked()
		t.hasLeft(e)
	}
}

// Leaving calls f for every peer that is to be handed over, from leave to Abandon.
func (t *Takeover) Leaving(f func(peer int, err error)) {
	for _, e := range t.leavers {
		f(e.peer, e.leaving.err)
	}
}

// Leave hands over a peer at the request of the peer. It returns false if the endpoint of the peer has ended.
func (t *Takeover) Leave(peer int) bool {
	e := t.cm.endpointOf(peer)
	if e.ended.Load() != nil || e.addr.Rails == nil {
		return false
	}
	t.leave(e, fmt.Errorf("fabric/rdma: peer %d: %w: the peer cannot continue", peer, fabric.ErrPeerDown))
	return true
}

// Left returns the final state of the messages with a peer that is handed over. ok is false until it is final.
func (t *Takeover) Left(peer int) (h Handover, ok bool) {
	e := t.cm.endpointOf(peer)
	if e.leaving == nil || !e.leaving.left || e.msgs.Held > 0 || e.ended.Load() != nil {
		return h, false
	}
	return Handover{e.msgs.In.Received, e.msgs.Out.Sent - uint32(len(e.unacked)), e.msgs.Out.Sent}, true
}

// Unreceived returns copies of the messages that the peer has not received, oldest first. received is their number at the peer.
func (t *Takeover) Unreceived(peer int, received uint32) [][]byte {
	e := t.cm.endpointOf(peer)
	var list [][]byte
	for _, r := range e.unacked {
		if int32(r.Seq-received) >= 0 {
			list = append(list, slices.Clone(t.cm.poster.Sends.Mem(r.Slot)[messages.HeaderBytes:r.Bytes]))
		}
		t.cm.poster.Sends.Give(r.Slot)
	}
	e.unacked = nil
	return list
}
