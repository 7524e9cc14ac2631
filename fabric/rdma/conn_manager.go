package rdma

import (
	"slices"
	"sync/atomic"

	"github.com/ibrun/ibrun/fabric/rdma/internal/closing"
	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/datagrams"
	"github.com/ibrun/ibrun/fabric/rdma/internal/devices"
	"github.com/ibrun/ibrun/fabric/rdma/internal/liveness"
	"github.com/ibrun/ibrun/fabric/rdma/internal/messages"
	"github.com/ibrun/ibrun/fabric/rdma/internal/posting"
	"github.com/ibrun/ibrun/verbs"
)

// connManager connects peers. It has the datagrams that connect and disconnect them (see cm.Message),
// and lists the endpoints that have something to do with connections. It belongs to the goroutine
// that calls Poll. Other goroutines call only requestLocked, in Read and Write.
type connManager struct {
	datagrams.Manager

	// connecting has the timers, for REQs and for probes, of peers that were sent a REQ or a REP, or are to be sent a REQ after a
	// pause.
	connecting   liveness.Timers[*endpoint]
	anyRequested atomic.Bool // requested is not empty; atomic, so that Poll reads it without the lock
	closing      closing.List[*endpoint]
	notices      []*endpoint // peers without a connection that must be notified of Close
	requested    []*endpoint // are to be connected to; guarded by the lock of the poster
	mtuReported  bool        // see reduceMTU

	// The domain sets these once, when it opens.
	settings   *Settings
	params     verbs.Params // of RC connections
	rails      []*rail
	eps        peers
	endpointOf func(peer int) *endpoint // returns the endpoint of a peer, and creates it if there is none
	poster     *posting.Poster
	recvs      *messages.Receives
	clock      *liveness.Clock
	limits     *liveness.Limits
	report     func(text string) // Transport.Report
}

// request makes the next Poll connect to a peer.
func (m *connManager) request(e *endpoint) {
	m.poster.Mu.Lock()
	m.requestLocked(e)
	m.poster.Mu.Unlock()
}

// requestLocked is request for callers that hold the lock of the poster.
func (m *connManager) requestLocked(e *endpoint) {
	if !e.requested {
		e.requested = true
		m.requested = append(m.requested, e)
		m.anyRequested.Store(true)
	}
}

// takeRequested returns the endpoints that request was called for, and forgets them.
func (m *connManager) takeRequested() []*endpoint {
	m.poster.Mu.Lock()
	defer m.poster.Mu.Unlock()
	m.anyRequested.Store(false)
	requested := m.requested
	m.requested = nil
	for _, e := range requested {
		e.requested = false
	}
	return requested
}

// sendNotices notifies peers without a connection that this process closes, so that they know it before they connect. It reports
// whether some of these datagrams are still to be sent or in flight. A peer that does not receive one finds by probes that this
// process has gone.
func (m *connManager) sendNotices() bool {
	m.notices = slices.DeleteFunc(m.notices, func(e *endpoint) bool {
		err := e.sendCM(cm.DREQ, cm.QP{})
		return err != datagrams.ErrResolving && err != datagrams.ErrNoSlot
	})
	return len(m.notices) > 0 || m.Socket.IsSending()
}

// received handles the completion of a datagram that has arrived.
func (m *connManager) received(wc *verbs.WC) {
	m.clock.FastPolls = 0
	if m.Socket.Received(wc); m.Socket.Failed {
		m.clock.Next = 0
	}
}

// sent handles the completion of a datagram that was sent.
func (m *connManager) sent(wc *verbs.WC) {
	if m.Socket.Sent(wc); m.Socket.Failed {
		m.clock.Next = 0
	}
}

// handleDatagrams handles the datagrams that have arrived.
func (m *connManager) handleDatagrams() {
	for msg := m.Next(); msg != nil; msg = m.Next() {
		m.handle(msg)
	}
}

// handleResolved takes over the destinations that have been made, and sends what waits for them.
func (m *connManager) handleResolved() {
	for range m.Resolver.Results() {
		peer, err := m.Resolver.Next()
		e := m.eps[peer]
		err = exported(err)
		switch {
		case e.addr.IsResolving() || e.ended.Load() != nil:
		case e.conn.State == cm.StateREPSent && err == nil:
			e.trySendCM(cm.REP, e.conn.PeerQP)
		case e.conn.State == cm.StateREPSent:
			e.answered(err)
		case e.conn.State == cm.StateREQSent && !e.attempt.held:
			now := m.clock.Elapsed()
			if err == nil {
				err = e.sendCM(cm.REQ, cm.QP{})
			}
			m.countREQ(e, now, err)
			if e.retry.timer.IsSet() {
				m.scheduleConnecting(e)
			}
		}
	}
}

// sendDatagram sends a datagram to a peer. It may be lost, so its sender must be prepared to send it again. The error is
// datagrams.ErrResolving, datagrams.ErrNoSlot, that there is no route to the peer, or a devices.SetUpError if the device refuses.
func (e *endpoint) sendDatagram(msg *cm.Message) error {
	return exported(e.d.cm.Send(e.peer, &e.addr, msg))
}

// sendCM is sendDatagram for what newCM returns.
func (e *endpoint) sendCM(kind cm.Kind, reqQP cm.QP) error {
	msg := e.newCM(kind, reqQP)
	return e.sendDatagram(&msg)
}

// newCM returns a datagram to a peer.
func (e *endpoint) newCM(kind cm.Kind, reqQP cm.QP) cm.Message {
	d := e.d
	msg := cm.Message{
		Kind: kind, From: uint32(d.self), To: uint32(e.peer), Size: uint32(d.size), Epoch: e.conn.Epoch,
		FromIncarnation: d.cm.Incarnation, ToIncarnation: e.addr.Incarnation, NextSeq: e.msgs.In.Received, Grant: e.msgs.In.Granted,
		Lanes: uint8(len(e.lanes.Queues)), ReqQP: reqQP, Address: d.cm.Address(), Keys: d.regions.Table,
		Returned: e.returned, MTU: e.mtu,
	}
	for i, q := range e.lanes.Queues {
		msg.Pairs[i] = q.Info
	}
	switch kind {
	case cm.DREQ:
		msg.Grant = e.msgs.Out.Sent
	case cm.Probe:
		msg.NextSeq, msg.Grant = e.retry.silence.Probe, 0
	}
	return msg
}

// trySendCM is sendCM for datagrams that answer a REQ, or that the peer can do without. An error is like a datagram that is
// lost: the peer sends its REQ again, or finds by probes that this process has gone. It may ask why over another transport.
func (e *endpoint) trySendCM(kind cm.Kind, reqQP cm.QP) {
	e.answered(e.sendCM(kind, reqQP))
}

// answered records whether an answer to the peer could be sent.
func (e *endpoint) answered(err error) {
	if err != datagrams.ErrNoSlot && e.conn.State != cm.StateEstablished {
		e.noteSent(err)
	}
}

// noteSent records the result of sending a datagram that makes a connection.
func (e *endpoint) noteSent(err error) {
	e.retry.err = err
	if err == datagrams.ErrResolving {
		e.retry.err = nil
	}
	if devices.IsRefusal(err) {
		e.attemptRefused(err)
	}
}
