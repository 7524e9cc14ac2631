package rdma

import (
	"container/heap"
	"time"
)

// connectTimers are the timers of the peers that are being connected to: for REQs and for probes. They are a heap, so that a tick
// looks only at peers whose timer has expired. It is ordered by connRetry.at; connRetry.position is the index of a peer plus 1.
type connectTimers []*endpoint

var _ heap.Interface = (*connectTimers)(nil)

// maxConnectVisits is how many expired timers one tick runs. The next tick runs further ones.
const maxConnectVisits = 64

func (t connectTimers) Len() int           { return len(t) }
func (t connectTimers) Less(i, j int) bool { return t[i].retry.at < t[j].retry.at }

func (t connectTimers) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].retry.position, t[j].retry.position = int32(i+1), int32(j+1)
}

// Push is called by package heap.
func (t *connectTimers) Push(x any) {
	e := x.(*endpoint)
	*t = append(*t, e)
	e.retry.position = int32(len(*t))
}

// Pop is called by package heap.
func (t *connectTimers) Pop() any {
	last := len(*t) - 1
	e := (*t)[last]
	(*t)[last] = nil
	*t = (*t)[:last]
	e.retry.position = 0
	return e
}

// addConnecting makes tick run the connection timers of a peer from now on. Its first probe is due in one keepalive interval:
// most connections are made before.
func (d *domain) addConnecting(e *endpoint, now time.Duration) {
	r := &e.retry
	if r.position == 0 {
		r.silence.At = now + d.liveness.Interval
		heap.Push(&d.cm.connecting, e)
	}
	d.scheduleConnecting(e)
}

// removeConnecting undoes addConnecting. It does nothing if the peer has no timers.
func (d *domain) removeConnecting(e *endpoint) {
	if e.retry.position > 0 {
		heap.Remove(&d.cm.connecting, int(e.retry.position)-1)
	}
}

// scheduleConnecting sets the timer of a peer to when its next REQ or its next probe is due.
func (d *domain) scheduleConnecting(e *endpoint) {
	r := &e.retry
	r.at = r.silence.At
	if e.requests() {
		r.at = min(r.at, r.reqAt)
	}
	heap.Fix(&d.cm.connecting, int(r.position)-1)
	d.clock.Schedule(r.at)
}

// runConnectTimers runs the timers that have expired, as long as there are slots for datagrams.
func (d *domain) runConnectTimers(now time.Duration) {
	t := &d.cm.connecting
	for visits := 0; len(*t) > 0 && (*t)[0].retry.at <= now; visits++ {
		if visits == maxConnectVisits || d.cm.Socket.Free() == 0 {
			break
		}
		e := (*t)[0]
		if !e.isConnecting() {
			d.removeConnecting(e)
			continue
		}
		d.checkConnecting(e, now)
		if e.retry.position > 0 {
			d.scheduleConnecting(e)
		}
	}
	if len(*t) > 0 {
		d.clock.Schedule((*t)[0].retry.at)
	}
}
