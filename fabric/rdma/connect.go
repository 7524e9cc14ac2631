package rdma

import (
	"fmt"
	"slices"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
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

// connectRequested starts the connections that request has asked for.
func (m *connManager) connectRequested() {
	for _, e := range m.takeRequested() {
		if e.leaving != nil {
			if e.leaving.left { // before that, the device may access their memory; hasLeft ends them
				e.endTransfers(errAbandoned.err)
			}
		} else if e.conn.State == cm.StateIdle && e.teardown == nil && e.ended.Load() == nil && !e.retryPending() && !e.attempt.held {
			m.startConnect(e)
		}
	}
}

// startConnect creates queue pairs and sends the first REQ.
func (m *connManager) startConnect(e *endpoint) {
	now := m.clock.Elapsed()
	e.retry.pending = false
	if err := m.createQueuePairs(e, e.conn.Epoch+1, nil); err != nil {
		e.refused(err)
		return
	}
	e.conn.Request(e.lanes.Queues[0].Info)
	e.msgs.In.Granted = e.msgs.In.Grant() // the same in every repetition of the REQ
	e.retry.reqInterval = liveness.MinREQInterval
	m.sendREQ(e, now)
	m.addConnecting(e, now)
}

// handle acts on a datagram of the connection manager.
func (m *connManager) handle(msg *cm.Message) {
	e := m.endpointOf(int(msg.From))
	if !m.Identify(&e.addr, msg) {
		return
	}
	e.conn.PeerIncarnation = e.addr.Incarnation
	e.attempt.heard = e.attempt.heard || msg.Kind != cm.Alive // that is sent over another queue pair, see responder
	e.avoided = e.avoided.WithoutRails(msg.Returned)          // their link is up again at the peer
	if e.attempt.held && msg.Kind <= cm.REP {
		return
	}
	m.Renew(&e.addr, msg)
	switch msg.Kind {
	case cm.Alive:
		e.retry.silence.Answer(msg.NextSeq)
		return
	case cm.DREQ, cm.GiveUp:
		e.peerEnds(msg)
		return
	}
	if why := e.ended.Load(); why != nil {
		if msg.Kind == cm.REQ {
			e.answerEnded(why.err)
		}
		return
	}
	if e.teardown != nil {
		if msg.Kind == cm.REQ {
			e.teardown.REQ = msg // finishTeardown handles it: until then more messages may arrive, which the REP acknowledges
		}
		return
	}
	if e.leaving != nil {
		return
	}
	if msg.Kind == cm.REJ {
		e.rejected(msg)
		return
	}
	switch e.conn.Receive(msg) {
	case cm.ActionAccept:
		m.accept(e, msg)
	case cm.ActionRepeatREP:
		e.trySendCM(cm.REP, msg.Pairs[0])
	case cm.ActionEstablish:
		if err := m.connectQueuePairs(e, msg); err != nil {
			e.tearDown().Break(err)
			return
		}
		e.conn.Established(msg.Pairs[0])
		e.established()
		e.sendControl(messages.RTU)
	}
}

// accept accepts a REQ: it connects queue pairs and sends a REP.
func (m *connManager) accept(e *endpoint, msg *cm.Message) {
	if e.conn.State != cm.StateREQSent {
		if e.lanes.Queues != nil {
			e.tearDown().REQ = msg
			return
		}
		e.conn.Reset()
		if err := m.createQueuePairs(e, msg.Epoch, msg.Pairs[:msg.Lanes]); err != nil {
			e.reject(msg, err)
			e.attemptRefused(err)
			return
		}
	}
	if err := m.connectQueuePairs(e, msg); err != nil {
		if devices.IsRefusal(err) {
			e.reject(msg, err)
		}
		e.tearDown().Break(err)
		return
	}
	for _, q := range e.lanes.Queues {
		q.Epoch = msg.Epoch
	}
	e.conn.Accepted(msg, e.lanes.Queues[0].Info)
	e.retry.pending = false
	e.msgs.In.Granted = e.msgs.In.Grant() // the same in every repetition of the REP
	// The peer may compute for any time before it confirms the connection, but it must exist.
	m.addConnecting(e, m.clock.Elapsed())
	e.trySendCM(cm.REP, msg.Pairs[0])
}

// connectQueuePairs connects the endpoint's queue pairs to those in a REQ or REP. It stores which message the peer expects next.
func (m *connManager) connectQueuePairs(e *endpoint, msg *cm.Message) error {
	if e.msgs.Out.Sent-msg.NextSeq > uint32(len(e.unacked)) {
		return fmt.Errorf("%w: the peer expects message %d, but messages %d to %d are unacknowledged", fabric.ErrCorrupt,
			msg.NextSeq, e.msgs.Out.Sent-uint32(len(e.unacked)), e.msgs.Out.Sent)
	}
	if err := e.msgs.Out.ReceiveGrant(msg.Grant); err != nil {
		return err
	}
	e.peerExpects, e.lanes.Keys = msg.NextSeq, msg.Keys
	e.takeMTU(msg.MTU)
	var failed error
	m.poster.Keep(&e.lanes, func(q *posting.QueuePair) bool {
		i := slices.IndexFunc(msg.Pairs[:msg.Lanes], func(p cm.QP) bool { return p.Lane == q.Info.Lane })
		if i < 0 {
			return false // the peer does without this lane
		}
		q.Connected = true
		peer, path := &e.addr.Rails[q.Rail.Index], q.Info.Lane.Path
		params := m.rails[q.Rail.Index].PathParams(m.params, peer, path, devices.FlowOf(e.conn.Self, e.conn.Peer))
		if e.mtu != 0 {
			params.MTU = min(params.MTU, e.mtu)
		}
		err := q.QP.ConnectWith(msg.Pairs[i].At(peer.Address), params)
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
func (m *connManager) createQueuePairs(e *endpoint, epoch uint32, offered []cm.QP) error {
	if err := m.recvs.Admit(&e.msgs); err != nil {
		return err
	}
	var qps []*posting.QueuePair
	for i, l := range m.lanesTo(e, offered) {
		q, err := m.rails[l.Rail].newQueuePair(e.peer, epoch, l.Path, &e.addr.Rails[l.Rail])
		if err != nil && i == 0 {
			return err
		}
		if err != nil {
			m.rails[l.Rail].leaveOut(e, err)
			continue
		}
		qps = append(qps, q)
	}
	m.poster.Mu.Lock()
	m.poster.Attach(&e.lanes, qps)
	m.poster.Mu.Unlock()
	m.recvs.Attach(&e.msgs, qps[0].Recvs)
	return nil
}

// established is called when both sides have connected their queue pairs. It sends again what the peer has not received, and
// posts the transfers that wait for a connection.
func (e *endpoint) established() {
	d := e.d
	e.keepalive = liveness.State{Alive: true}
	e.retry.err, e.retry.pending, e.returned = nil, false, 0
	e.retry.silence.End()
	e.attempt.done, e.attempt.confirmed = true, false
	d.cm.connecting.Remove(&e.retry.timer)
	d.cm.reportLeftOut(e)
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
	if !e.retransmit(unacked) {
		return
	}
	d.poster.Mu.Lock()
	d.poster.Pieces(&e.lanes)
	d.poster.Mu.Unlock()
	d.poster.Ring(&e.lanes)
}
