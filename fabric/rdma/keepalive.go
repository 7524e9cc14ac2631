package rdma

import (
	"fmt"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/verbs"
)

const (
	maxKeepaliveInterval = 500 * time.Millisecond
	minMissed            = 10 // with a short heartbeat the intervals are shorter, so that a few lost datagrams do no harm
	maxQueueAhead        = 2  // requests that a keepalive WRITE may be posted behind and still count as answered in time
)

// liveness says how long a peer may give no sign of life. Time is counted in keepalive intervals rather than read from a clock,
// so that a time in which this process did not poll counts as one interval: the peer's answers have not been seen then.
type liveness struct {
	interval  time.Duration
	maxMissed int // intervals without an answer after which a peer is down
	// maxQueued is maxMissed for a keepalive WRITE that was posted behind many requests. Packet loss delays these, so the
	// connection is made again. Probes find in the rest of the time whether the peer still exists.
	maxQueued int
}

func newLiveness(heartbeat time.Duration) liveness {
	interval := max(min(maxKeepaliveInterval, heartbeat/minMissed), time.Millisecond)
	missed := max(int(heartbeat/interval), minMissed)
	return liveness{interval: interval, maxMissed: missed, maxQueued: missed * 2 / 3}
}

// duration returns how long a number of intervals takes.
func (l liveness) duration(intervals int) time.Duration { return time.Duration(intervals) * l.interval }

// keepaliveState is what the keepalive knows about a peer.
type keepaliveState struct {
	alive       bool // a message or an acknowledgement has arrived since the last keepalive interval
	probing     bool // a keepalive WRITE is in flight
	probeQueued bool // it was posted behind many other requests
	missed      int  // keepalive intervals in a row in which nothing has arrived while the WRITE was in flight
}

// keepalive checks for a sign of life of a connected peer. If there was none since the last interval, it posts a WRITE of no
// bytes: the peer's device acknowledges it even if the process computes or is stopped.
func (d *domain) keepalive(e *endpoint) {
	if d.checkStalled(e) {
		return
	}
	if e.keepalive.alive {
		e.keepalive.alive, e.keepalive.missed = false, 0
		return
	}
	if !e.keepalive.probing {
		d.mu.Lock()
		q := e.qps[0]
		// With no signaled request in flight, the others have been carried out; they only have no completion of their own.
		queuedBehind := q.pieces > 0 || q.signaled > 0 && q.inFlight() > maxQueueAhead
		err := q.qp.Write(q.wrID(q.tail), verbs.Signaled, verbs.Remote{})
		if err == nil {
			q.push(request{kind: requestKeepalive}, verbs.Signaled)
			d.inFlight[0]++
		}
		d.mu.Unlock()
		if err != nil {
			return // the queue pair has failed, and its completions report that
		}
		e.keepalive.probing, e.keepalive.probeQueued = true, queuedBehind
		e.ring()
		return
	}
	e.keepalive.missed++
	if e.keepalive.probeQueued && e.keepalive.missed >= d.liveness.maxQueued {
		d.declareBroken(e, fmt.Errorf("queue pair %d: %w", e.qps[0].info.qpn, verbs.StatusRetryExceeded))
	} else if !e.keepalive.probeQueued && e.keepalive.missed >= d.liveness.maxMissed {
		d.declareDown(e, fmt.Errorf("fabric/rdma: peer %d: %w: its device has not answered for %v", e.peer, fabric.ErrPeerDown,
			d.liveness.duration(e.keepalive.missed)))
	}
}

// checkStalled reports whether a queue pair of the endpoint has failed without a completion that says so: Soft-RoCE does not
// always complete the requests that were posted to a failed queue pair. checkStalled then declares the connection broken. It also
// lets the pacers adjust their windows.
func (d *domain) checkStalled(e *endpoint) bool {
	d.mu.Lock()
	qps, transferring, stalled := e.qps, e.ops.first != nil, false
	for _, q := range qps {
		stalled = stalled || (transferring || q.inFlight() > 0) && q.keepaliveHead == q.head
		q.keepaliveHead = q.head
		q.pacer.adjust()
	}
	d.mu.Unlock()
	if !stalled {
		return false
	}
	for _, q := range qps {
		if s, err := q.qp.State(); err != nil || s == verbs.StateErr {
			d.declareBroken(e, fmt.Errorf("queue pair %d: %w", q.info.qpn, verbs.ErrState))
			return true
		}
	}
	return false
}
