package rdma

import (
	"errors"
	"fmt"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
)

// disconnectState is the progress of an orderly disconnect that this side has begun.
type disconnectState uint8

const (
	disconnectNone disconnectState = iota
	disconnectDue                  // the DREQ is to be sent
	disconnectSent
	disconnectDone // the DREQ was acknowledged, or the peer is down
)

// isPending reports whether the peer has not acknowledged the DREQ.
func (s disconnectState) isPending() bool { return s == disconnectDue || s == disconnectSent }

// disconnectByDatagram tells a peer that this side has closed if the DREQ was lost with the connection. Otherwise the peer would
// find it only when its own requests are not answered, and wait that long if it closes as well.
func (d *domain) disconnectByDatagram(e *endpoint) {
	if d.closed {
		d.cm.notices = append(d.cm.notices, e) // Close waits until they are sent
		return
	}
	e.trySendCM(cm.DREQ, cm.QP{})
}

// disconnected is called when the peer's device has acknowledged the DREQ.
func (e *endpoint) disconnected() {
	e.disconnect = disconnectDone
	if e.ended.Load() != nil {
		e.declareBroken(fabric.ErrClosed)
	}
}

// peerEnds handles a datagram by which a peer ends the connection for good.
func (e *endpoint) peerEnds(m *cm.Message) {
	if m.Kind == cm.GiveUp {
		e.declareDown(fmt.Errorf("fabric/rdma: peer %d: %w: its process has given up the connection: %w", e.peer,
			fabric.ErrPeerDown, m.Reason()))
		return
	}
	e.peerClosing, e.finalSeq = true, m.Grant
	if e.msgs.In.Received == e.finalSeq || e.conn.State < cm.StateREPSent || e.ended.Load() != nil {
		e.declareDown(fmt.Errorf("fabric/rdma: peer %d: %w", e.peer, fabric.ErrPeerClosed))
	}
}

// answerEnded answers a REQ of a peer whose endpoint has ended with this error. The peer does not know of the end: no datagram
// about it was sent, or it was lost.
func (e *endpoint) answerEnded(err error) {
	if g := (*givenUp)(nil); errors.As(err, &g) {
		e.answered(e.sendGiveUp(g))
		return
	}
	e.trySendCM(cm.DREQ, cm.QP{})
}

// sendGiveUp tells a peer why this process has given it up.
func (e *endpoint) sendGiveUp(g *givenUp) error {
	msg := e.newReason(cm.GiveUp, g.attempts, g.why, 0)
	return e.sendDatagram(&msg)
}
