package rdma

import (
	"errors"
	"fmt"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/verbs"
)

// An endpoint fails in one of two ways. A connection that is broken is made again under the next epoch, and the messages that
// the peer has not acknowledged are sent again. A peer that is down is lost for good: its endpoint ends. Both are only recorded
// where they are noticed, and handled by the next progress: closing the queue pairs polls the completion queues.

// connFailure is a connection that is to be closed, once everything that has arrived over it was received.
type connFailure struct {
	ep       *endpoint
	qp       *queuePair // the first of the connection
	err      error
	peerDown bool // the peer is lost; otherwise the connection is made again
}

// maxBreaks is how many connections in a row may break before the peer has acknowledged a message or a piece over them.
const maxBreaks = 24

// declareDown makes progress end the endpoint with this error.
func (d *domain) declareDown(e *endpoint, err error) {
	d.cm.failures, d.fastPolls = append(d.cm.failures, connFailure{e, e.messageQP(), err, true}), 0
}

// declareBroken makes progress close the connection, and connect again unless the endpoint was closed.
func (d *domain) declareBroken(e *endpoint, err error) {
	d.cm.failures, d.fastPolls = append(d.cm.failures, connFailure{e, e.messageQP(), err, false}), 0
}

// handleFailures handles what declareDown and declareBroken have recorded.
func (d *domain) handleFailures() error {
	for i := 0; i < len(d.cm.failures); i++ { // closing a connection may find others that have failed
		f := d.cm.failures[i]
		ended := f.ep.ended.Load() != nil
		if !f.peerDown && !ended && (f.qp == nil || f.qp != f.ep.messageQP()) {
			continue // that connection was closed already: several failures of it were recorded
		}
		if err := d.closeConn(f.ep); err != nil {
			return err
		}
		switch {
		case f.peerDown:
			d.peerDown(f.ep, f.err)
		case ended:
			d.endTransfers(f.ep, errEndpointClosed.err)
			d.releasePeer(f.ep)
		default:
			d.reconnect(f.ep, f.err)
		}
	}
	d.cm.failures = nil
	return nil
}

// peerDown ends an endpoint whose peer is down.
func (d *domain) peerDown(e *endpoint, err error) {
	if e.ended.CompareAndSwap(nil, &endReason{err}) {
		d.endTransfers(e, err)
		d.events.put(queuedEvent{kind: fabric.PeerDown, ep: e, err: err})
	}
	d.releasePeer(e)
}

// releasePeer frees the slots of a peer that no more messages are exchanged with. Its queue pairs must be closed.
func (d *domain) releasePeer(e *endpoint) {
	for _, r := range e.unacked {
		d.sends.give(r.slot)
	}
	e.unacked = nil
	if e.in.window > 0 {
		d.recvs.reserved -= int(e.in.window) + 1 - e.held
		e.in.window = 0
	}
	e.conn.reset()
	e.disconnect = disconnectDone
}

// reconnect asks for a new connection in place of one that broke.
func (d *domain) reconnect(e *endpoint, err error) {
	e.conn.reset()
	if e.retry.breaks++; e.retry.breaks > maxBreaks {
		d.peerDown(e, fmt.Errorf("fabric/rdma: peer %d: %w: %d connections in a row broke, the last with: %w", e.peer,
			fabric.ErrPeerDown, e.retry.breaks, err))
		return
	}
	if errors.Is(err, verbs.StatusRetryExceeded) {
		d.mu.Lock()
		e.pacerWindow /= 4
		d.mu.Unlock()
	}
	// The peer may have been silent before the connection broke. That time counts.
	e.retry.silence.intervals, e.keepalive.missed = e.keepalive.missed, 0
	e.requestConnect()
}

// closeConn receives everything that has arrived over a connection, and closes its queue pairs. It keeps messages that were not
// acknowledged.
func (d *domain) closeConn(e *endpoint) error {
	d.mu.Lock()
	qps := e.qps
	e.canPost = false
	d.mu.Unlock()
	if qps == nil {
		return nil
	}
	for _, q := range qps {
		_ = q.qp.Modify(verbs.Attr{State: verbs.StateErr}, verbs.AttrState) // if it fails, Close ends the requests as well
	}
	if err := d.drainCQs(); err != nil {
		return err
	}
	var unacked []request
	d.mu.Lock()
	for i, q := range qps {
		d.byQPN.remove(q.rail, q.info.qpn)
		d.inFlight[i] -= q.inFlight()
		for q.inFlight() > 0 {
			switch r := q.pop(); r.kind {
			case requestMessage:
				unacked = append(unacked, r)
			case requestControl, requestDisconnect:
				d.sends.give(r.slot)
			case requestKeyRead:
				d.keyReads.give(r.slot)
			}
		}
	}
	e.unacked = append(unacked, e.unacked...) // those of earlier connections have not been sent again yet
	d.restartTransfers(e)
	e.canPost = false // once more: drainCQs may have received the first message, which sets it
	e.qps, e.pacerWindow = nil, qps[0].pacer.window
	d.mu.Unlock()
	e.rtuDue, e.in.controlUnacked = false, false
	for _, q := range qps {
		if err := q.qp.Close(); err != nil {
			return fmt.Errorf("fabric/rdma: %w", err)
		}
	}
	if qps[0].recvs == nil {
		return nil
	}
	if err := d.drainCQs(); err != nil { // removes completions of the closed queue pairs, before their slots are posted again
		return err
	}
	d.recvs.reclaim(qps[0].recvs)
	return nil
}

// retransmit sends messages again over a new connection, apart from those that the peer has received. If the new connection
// fails, it keeps the rest for the next one and returns false.
func (d *domain) retransmit(e *endpoint, unacked []request) bool {
	for i, r := range unacked {
		if int32(r.seq-e.peerExpects) < 0 {
			d.sends.give(r.slot)
			continue
		}
		if _, ok := e.post(r, d.sends.mem(r.slot)[:r.bytes], shareAll, false); !ok {
			e.unacked = append(e.unacked, unacked[i:]...)
			d.declareBroken(e, verbs.ErrState)
			return false
		}
		d.retransmits++
	}
	return true
}
