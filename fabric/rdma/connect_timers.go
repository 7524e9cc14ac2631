package rdma

import (
	"time"

	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/datagrams"
	"github.com/ibrun/ibrun/fabric/rdma/internal/liveness"
)

// A REQ that is not answered is sent again, after the intervals of internal/liveness/connect_intervals.go. An
// attempt that has failed is followed by a pause (liveness.RetryPause). During both, one probe is
// sent in each keepalive interval, see silence.go.

// maxConnectVisits is how many expired timers one tick runs. The next tick runs further ones.
const maxConnectVisits = 64

// addConnecting makes tick run the connection timers of a peer from now on. Its first probe is due in one keepalive interval:
// most connections are made before.
func (m *connManager) addConnecting(e *endpoint, now time.Duration) {
	if !e.retry.timer.IsSet() {
		e.retry.silence.At = now + m.limits.Interval
	}
	m.scheduleConnecting(e)
}

// scheduleConnecting sets the timer of a peer to when its next REQ or its next probe is due.
func (m *connManager) scheduleConnecting(e *endpoint) {
	at := e.retry.silence.At
	if e.requests() {
		at = min(at, e.retry.reqAt)
	}
	m.connecting.Set(&e.retry.timer, e, at)
	m.clock.Schedule(at)
}

// runConnectTimers runs the timers that have expired, as long as there are slots for datagrams.
func (m *connManager) runConnectTimers(now time.Duration) {
	t := &m.connecting
	for visits := 0; t.Len() > 0 && t.Next() <= now; visits++ {
		if visits == maxConnectVisits || m.Socket.Free() == 0 {
			break
		}
		e := t.Of(0)
		if !e.isConnecting() {
			t.Remove(&e.retry.timer)
			continue
		}
		m.checkConnecting(e, now)
		if e.retry.timer.IsSet() {
			m.scheduleConnecting(e)
		}
	}
	if t.Len() > 0 {
		m.clock.Schedule(t.Next())
	}
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

// requests reports whether this side is to send a REQ to a peer that isConnecting, unless the timer for that has not expired. The
// side that has sent the REQ sends it again.
func (e *endpoint) requests() bool {
	return e.conn.State != cm.StateREPSent && e.teardown == nil && !e.attempt.held
}

// sendREQ sends a REQ, and sets when the next is due.
func (m *connManager) sendREQ(e *endpoint, now time.Duration) {
	m.countREQ(e, now, e.sendCM(cm.REQ, cm.QP{}))
}

// countREQ records the result of sending a REQ, and sets when the next is due. While the address of the peer is being resolved,
// the REQs that would have been sent count as unanswered.
func (m *connManager) countREQ(e *endpoint, now time.Duration, err error) {
	if err == datagrams.ErrNoSlot {
		e.retry.reqAt = now // tries again in the next tick
		return
	}
	e.attempt.count(now)
	e.retry.reqAt = now + e.retry.reqInterval
	e.retry.reqInterval = min(2*e.retry.reqInterval, liveness.MaxREQInterval)
	e.noteSent(err)
}

// checkConnecting runs the timers of a peer that isConnecting.
func (m *connManager) checkConnecting(e *endpoint, now time.Duration) {
	if e.checkSilence(now) || !e.requests() {
		return
	}
	switch {
	case now < e.retry.reqAt:
	case e.conn.State == cm.StateIdle:
		m.startConnect(e)
	default:
		m.sendREQ(e, now)
	}
}
