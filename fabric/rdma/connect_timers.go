package rdma

import "time"

// maxConnectVisits is how many expired timers one tick runs. The next tick runs further ones.
const maxConnectVisits = 64

// addConnecting makes tick run the connection timers of a peer from now on. Its first probe is due in one keepalive interval:
// most connections are made before.
func (e *endpoint) addConnecting(now time.Duration) {
	if !e.retry.timer.IsSet() {
		e.retry.silence.At = now + e.d.liveness.Interval
	}
	e.scheduleConnecting()
}

// scheduleConnecting sets the timer of a peer to when its next REQ or its next probe is due.
func (e *endpoint) scheduleConnecting() {
	at := e.retry.silence.At
	if e.requests() {
		at = min(at, e.retry.reqAt)
	}
	e.d.cm.connecting.Set(&e.retry.timer, e, at)
	e.d.clock.Schedule(at)
}

// runConnectTimers runs the timers that have expired, as long as there are slots for datagrams.
func (d *domain) runConnectTimers(now time.Duration) {
	t := &d.cm.connecting
	for visits := 0; t.Len() > 0 && t.Next() <= now; visits++ {
		if visits == maxConnectVisits || d.cm.Socket.Free() == 0 {
			break
		}
		e := t.Of(0)
		if !e.isConnecting() {
			t.Remove(&e.retry.timer)
			continue
		}
		d.checkConnecting(e, now)
		if e.retry.timer.IsSet() {
			e.scheduleConnecting()
		}
	}
	if t.Len() > 0 {
		d.clock.Schedule(t.Next())
	}
}
