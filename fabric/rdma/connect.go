package rdma

import (
	"fmt"
	"slices"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/datagrams"
	"github.com/ibrun/ibrun/fabric/rdma/internal/devices"
	"github.com/ibrun/ibrun/fabric/rdma/internal/liveness"
	"github.com/ibrun/ibrun/fabric/rdma/internal/messages"
	"github.com/ibrun/ibrun/fabric/rdma/internal/posting"
)

// connRetry counts and schedules attempts to connect to a peer.
type connRetry struct {
	err             error         // why the last datagram could not be sent; nil if it was sent
	liveness.Series               // of attempts that have failed
	reqAt           time.Duration // when to send the next REQ
	reqInterval     time.Duration // between that REQ and the one after it
	timer           liveness.Timer
	pending         bool // a timer begins the next attempt at reqAt
	silence         liveness.Silence
}

// requestConnect makes the next Poll connect to the peer.
func (e *endpoint) requestConnect() {
	e.d.poster.Mu.Lock()
	e.d.cm.request(e)
	e.d.poster.Mu.Unlock()
}

// connectRequested starts the connections that requestConnect has asked for.
func (d *domain) connectRequested() {
	d.poster.Mu.Lock()
	requested := d.cm.takeRequested()
	d.poster.Mu.Unlock()
	for _, e := range requested {
		if e.leaving != nil {
			if e.leaving.left { // before that, the device may access their memory; hasLeft ends them
				e.endTransfers(errAbandoned.err)
			}
		} else if e.conn.State == cm.StateIdle && e.teardown == nil && e.ended.Load() == nil && !e.retryPending() && !e.attempt.held {
			d.startConnect(e)
		}
	}
}

// startConnect creates queue pairs and sends the first REQ.
func (d *domain) startConnect(e *endpoint) {
	now := d.clock.Elapsed()
	e.retry.pending = false
	if err := d.createQueuePairs(e, e.conn.Epoch+1, nil); err != nil {
		e.refused(err)
		return
	}
	e.conn.Request(e.lanes.Queues[0].Info)
	e.msgs.In.Granted = e.msgs.In.Grant() // the same in every repetition of the REQ
	e.retry.reqInterval = liveness.MinREQInterval
	e.sendREQ(now)
	e.addConnecting(now)
}

// isConnecting reports whether a connection to the peer is being made, or is to be made after a pause, or once the one before is
// closed.
func (e *endpoint) isConnecting() bool {
	switch e.conn.State {
	case cm.StateREQSent, cm.StateREPSent:
		return true
	case cm.StateIdle:
		return (e.retry.pending || e.teardown != nil) && e.ended.Load() == nil
	}
	return false
}

// sendREQ sends a REQ, and sets when the next is due.
func (e *endpoint) sendREQ(now time.Duration) {
	e.countREQ(now, e.sendCM(cm.REQ, cm.QP{}))
}

// countREQ records the result of sending a REQ, and sets when the next is due. While the address of the peer is being resolved,
// the REQs that would have been sent count as unanswered.
func (e *endpoint) countREQ(now time.Duration, err error) {
	if err == datagrams.ErrNoSlot {
		e.retry.reqAt = now // tries again in the next tick
		return
	}
	e.attempt.count(now)
	e.retry.reqAt = now + e.retry.reqInterval
	e.retry.reqInterval = min(2*e.retry.reqInterval, liveness.MaxREQInterval)
	e.noteSent(err)
}

// requests reports whether this side is to send a REQ to a peer that isConnecting, unless the timer for that has not expired. The
// side that has sent the REQ sends it again.
func (e *endpoint) requests() bool {
	return e.conn.State != cm.StateREPSent && e.teardown == nil && !e.attempt.held
}

// checkConnecting runs the timers of a peer that isConnecting.
func (d *domain) checkConnecting(e *endpoint, now time.Duration) {
	if e.checkSilence(now) || !e.requests() {
		return
	}
	switch {
	case now < e.retry.reqAt:
	case e.conn.State == cm.StateIdle:
		d.startConnect(e)
	default:
		e.sendREQ(now)
	}
}

// handleCM acts on a datagram of the connection manager.
func (d *domain) handleCM(m *cm.Message) error {
	e := d.endpointOf(int(m.From))
	if !d.cm.Identify(&e.addr, m) {
		return nil
	}
	e.conn.PeerIncarnation = e.addr.Incarnation
	e.attempt.heard = e.attempt.heard || m.Kind != cm.Alive // that is sent over another queue pair, see responder
	e.avoided = e.avoided.WithoutRails(m.Returned)          // their link is up again at the peer
	if e.attempt.held && m.Kind <= cm.REP {
		return nil
	}
	d.cm.Renew(&e.addr, m)
	switch m.Kind {
	case cm.Alive:
		e.retry.silence.Answer(m.NextSeq)
		return nil
	case cm.DREQ, cm.GiveUp:
		d.peerEnds(e, m)
		return nil
	}
	if why := e.ended.Load(); why != nil {
		if m.Kind == cm.REQ {
			e.answerEnded(why.err)
		}
		return nil
	}
	if e.teardown != nil {
		if m.Kind == cm.REQ {
			e.teardown.REQ = m // finishTeardown handles it: until then more messages may arrive, which the REP acknowledges
		}
		return nil
	}
	if e.leaving != nil {
		return nil
	}
	if m.Kind == cm.REJ {
		e.rejected(m)
		return nil
	}
	switch e.conn.Receive(m) {
	case cm.ActionAccept:
		return d.accept(e, m)
	case cm.ActionRepeatREP:
		e.trySendCM(cm.REP, m.Pairs[0])
	case cm.ActionEstablish:
		if err := d.connectQueuePairs(e, m); err != nil {
			d.tearDown(e).Break(err)
			return nil
		}
		e.conn.Established(m.Pairs[0])
		d.established(e)
		e.sendControl(messages.RTU)
	}
	return nil
}

// accept accepts a REQ: it connects queue pairs and sends a REP.
func (d *domain) accept(e *endpoint, m *cm.Message) error {
	if e.conn.State != cm.StateREQSent {
		if e.lanes.Queues != nil {
			d.tearDown(e).REQ = m
			return nil
		}
		e.conn.Reset()
		if err := d.createQueuePairs(e, m.Epoch, m.Pairs[:m.Lanes]); err != nil {
			e.reject(m, err)
			e.attemptRefused(err)
			return nil
		}
	}
	if err := d.connectQueuePairs(e, m); err != nil {
		if devices.IsRefusal(err) {
			e.reject(m, err)
		}
		d.tearDown(e).Break(err)
		return nil
	}
	for _, q := range e.lanes.Queues {
		q.Epoch = m.Epoch
	}
	e.conn.Accepted(m, e.lanes.Queues[0].Info)
	e.retry.pending = false
	e.msgs.In.Granted = e.msgs.In.Grant() // the same in every repetition of the REP
	// The peer may compute for any time before it confirms the connection, but it must exist.
	e.addConnecting(d.clock.Elapsed())
	e.trySendCM(cm.REP, m.Pairs[0])
	return nil
}

// connectQueuePairs connects the endpoint's queue pairs to those in a REQ or REP. It stores which message the peer expects next.
func (d *domain) connectQueuePairs(e *endpoint, m *cm.Message) error {
	if e.msgs.Out.Sent-m.NextSeq > uint32(len(e.unacked)) {
		return fmt.Errorf("%w: the peer expects message %d, but messages %d to %d are unacknowledged", fabric.ErrCorrupt,
			m.NextSeq, e.msgs.Out.Sent-uint32(len(e.unacked)), e.msgs.Out.Sent)
	}
	if err := e.msgs.Out.ReceiveGrant(m.Grant); err != nil {
		return err
	}
	e.peerExpects, e.lanes.Keys = m.NextSeq, m.Keys
	e.takeMTU(m.MTU)
	var failed error
	d.poster.Keep(&e.lanes, func(q *posting.QueuePair) bool {
		i := slices.IndexFunc(m.Pairs[:m.Lanes], func(p cm.QP) bool { return p.Lane == q.Info.Lane })
		if i < 0 {
			return false // the peer does without this lane
		}
		q.Connected = true
		peer, path := &e.addr.Rails[q.Rail.Index], q.Info.Lane.Path
		params := d.rails[q.Rail.Index].PathParams(d.params, peer, path, devices.FlowOf(e.conn.Self, e.conn.Peer))
		if e.mtu != 0 {
			params.MTU = min(params.MTU, e.mtu)
		}
		err := q.QP.ConnectWith(m.Pairs[i].At(peer.Address), params)
		q.Connected = err == nil || q.MayReceive()
		if err != nil && q.IsMessages() {
			failed = &devices.SetUpError{Err: err}
		}
		if err == nil || q.IsMessages() {
			return true
		}
		_ = e.avoid(q, &devices.SetUpError{Err: err}) // the connection does without the lane
		return false
	})
	return failed
}

// createQueuePairs creates queue pairs for the next connection to a peer: for the lanes that the peer has offered, or for all if
// it has offered none. If the device has no room for those that do not carry messages, the connection does without them. For the
// first connection it also reserves receive slots.
func (d *domain) createQueuePairs(e *endpoint, epoch uint32, offered []cm.QP) error {
	if err := d.recvs.Admit(&e.msgs); err != nil {
		return err
	}
	var qps []*posting.QueuePair
	for i, l := range d.lanesTo(e, offered) {
		q, err := d.rails[l.Rail].newQueuePair(e.peer, epoch, l.Path, &e.addr.Rails[l.Rail])
		if err != nil && i == 0 {
			return err
		}
		if err != nil {
			d.rails[l.Rail].leaveOut(e, err)
			continue
		}
		qps = append(qps, q)
	}
	d.poster.Mu.Lock()
	d.poster.Attach(&e.lanes, qps)
	d.poster.Mu.Unlock()
	d.recvs.Attach(&e.msgs, qps[0].Recvs)
	return nil
}

// established is called when both sides have connected their queue pairs. It sends again what the peer has not received, and
// posts the transfers that wait for a connection.
func (d *domain) established(e *endpoint) {
	e.keepalive = liveness.State{Alive: true}
	e.retry.err, e.retry.pending, e.returned = nil, false, 0
	e.retry.silence.End()
	e.attempt.done, e.attempt.confirmed = true, false
	d.cm.connecting.Remove(&e.retry.timer)
	d.reportLeftOut(e)
	if !e.inRing {
		e.inRing = true
		d.keepalives.Add(e, &d.liveness, &d.clock)
	}
	unacked := e.unacked
	e.unacked = nil
	d.poster.Mu.Lock()
	e.lanes.CanPost = !d.stopped // the device may be lost
	if o := e.lanes.Ops.First; o != nil && len(e.lanes.Queues) == 1 {
		o.Most = o.Done // pieces carried out over one lane are kept, see transfer.Op.Kept, so each one is progress
	}
	d.poster.Mu.Unlock()
	if !d.retransmit(e, unacked) {
		return
	}
	d.poster.Mu.Lock()
	d.poster.Pieces(&e.lanes)
	d.poster.Mu.Unlock()
	d.poster.Ring(&e.lanes)
}
