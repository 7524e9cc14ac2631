package rdma

import (
	"fmt"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/verbs"
)

const (
	maxKeepaliveInterval = 500 * time.Millisecond
	minMissed            = 10  // with a short heartbeat the intervals are shorter, so that a few lost datagrams do no harm
	maxQueueAhead        = 2   // requests that a keepalive WRITE may be posted behind and still count as answered in time
	idleShare            = 4   // an idle peer is probed after this share of the heartbeat at the earliest
	maxVisits            = 128 // connected peers that one tick visits: some 20 µs
)

// liveness says how long a peer may give no sign of life. Time is counted in keepalive intervals rather than read from a clock,
// so that a time in which this process did not poll counts as one interval: the peer's answers have not been seen then.
type liveness struct {
	interval  time.Duration
	maxMissed int // intervals without an answer after which a peer is down
	// maxQueued is maxMissed for a keepalive WRITE that was posted behind many requests, or behind a long one. Packet loss delays
	// these, and the network may lose long packets, so the connection is made again. Probes find in the rest of the time whether
	// the peer still exists.
	maxQueued int
	minIdle   int // intervals without any message after which a peer is probed at the earliest
}

func newLiveness(heartbeat time.Duration) liveness {
	interval := max(min(maxKeepaliveInterval, heartbeat/minMissed), time.Millisecond)
	missed := max(int(heartbeat/interval), minMissed)
	return liveness{interval: interval, maxMissed: missed, maxQueued: missed * 2 / 3, minIdle: missed / idleShare}
}

// duration returns how long a number of intervals takes.
func (l liveness) duration(intervals int) time.Duration { return time.Duration(intervals) * l.interval }

// maxIdle returns after how many idle intervals a peer is probed: from a quarter to a half of the heartbeat. It differs from
// peer to peer, so that peers that became idle at the same time are not probed at the same time. A lost peer is noticed within
// that time and the heartbeat, which together are less than two times the heartbeat.
func (l liveness) maxIdle(peer int) int { return l.minIdle + peer%(l.minIdle+1) }

// keepaliveState is what the keepalive knows about a peer.
type keepaliveState struct {
	alive  bool  // a message or an acknowledgement has arrived since the last visit
	probe  bool  // the next visit probes the peer: see checkHandles
	age    int16 // visits since the connection was established, at most math.MaxInt16
	stuck  int32 // the largest queuePair.stuck
	idle   int   // visits in a row without a sign of life and without a request that would give one
	missed int   // visits in a row without a sign of life while a request with a completion was in flight
}

// keepaliveRing holds the connected peers. It visits each of them once in a keepalive interval. The visits are spread over the
// interval, so that a tick visits at most maxVisits peers, however many there are.
type keepaliveRing struct {
	peers []*endpoint
	next  int           // index of the peer that is visited next
	at    time.Duration // when the next batch is due
}

// add adds a peer unless it is in the ring.
func (r *keepaliveRing) add(e *endpoint, l *liveness, clock *clock) {
	if e.inRing {
		return
	}
	if len(r.peers) == 0 {
		r.next, r.at = 0, clock.elapsed()+l.interval
	}
	e.inRing = true
	r.peers = append(r.peers, e)
	clock.schedule(r.at)
}

// removeNext removes the peer that is visited next. The last peer takes its place: it was not visited in this round either.
func (r *keepaliveRing) removeNext() {
	last := len(r.peers) - 1
	r.peers[r.next].inRing = false
	r.peers[r.next], r.peers[last] = r.peers[last], nil
	r.peers = r.peers[:last]
}

// due returns how many peers are to be visited now, and sets when the next are. If this process did not poll for a while, those
// that were due meanwhile are visited now, each of them once.
func (r *keepaliveRing) due(now, interval time.Duration) int {
	if now < r.at || len(r.peers) == 0 {
		return 0
	}
	batches := (len(r.peers) + maxVisits - 1) / maxVisits
	step := interval / time.Duration(batches)
	late := min(int((now-r.at)/max(step, 1)), batches-1)
	r.at = now + step
	return min(len(r.peers), (1+late)*((len(r.peers)+batches-1)/batches))
}

// keepaliveTick visits the connected peers whose turn it is. It returns the error of a lost device.
func (d *domain) keepaliveTick(now time.Duration) error {
	r := &d.keepalives
	n := r.due(now, d.liveness.interval)
	if n > 0 {
		if err := d.pollAllSends(); err != nil {
			return err
		}
	}
	for ; n > 0 && len(r.peers) > 0; n-- {
		if r.next >= len(r.peers) {
			r.next = 0
		}
		e := r.peers[r.next]
		if e.conn.state != stateEstablished {
			r.removeNext()
			continue
		}
		r.next++
		d.keepalive(e)
		if e.disconnect == disconnectDue {
			d.trySendControl(e, kindDREQ)
		}
	}
	if len(r.peers) > 0 {
		d.clock.schedule(r.at)
	}
	return nil
}

// pollAllSends handles the completions of all requests that have completed. The keepalive needs it: after a time in which this
// process did not poll, the signs of life of many peers may be waiting in the completion queues.
func (d *domain) pollAllSends() error {
	for _, r := range d.polled {
		for n, left := len(d.wcs), r.maxInFlight; n == len(d.wcs) && left > 0; left -= n {
			var err error
			if n, err = d.pollSends(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// keepalive checks for a sign of life of a connected peer. The device supervises requests that are in flight: it completes them,
// or reports that the peer's device does not answer. So only a peer without such a request is probed, once it was idle for long,
// by a WRITE of no bytes. The peer's device acknowledges it even if the process computes or is stopped. Requests without a
// completion are followed by a probe after one interval, since their slots are freed only then.
func (d *domain) keepalive(e *endpoint) {
	if d.checkStalled(e) || d.returnLanes(e) || d.breakStuck(e) {
		return
	}
	k := &e.keepalive
	if k.alive {
		k.alive, k.idle, k.missed = false, 0, 0
		if !k.probe {
			return
		}
	}
	d.mu.Lock()
	q := e.qps[0]
	// With no signaled request in flight, the others have been carried out; they only have no completion of their own.
	supervised := q.signaled > 0
	probed, suspect := false, q.suspect()
	queued := q.pieces > 0 || q.inFlight() > maxQueueAhead || suspect.bytes > smallestMTU
	if !supervised {
		if k.idle++; k.probe || q.inFlight() > 0 || k.idle >= d.liveness.maxIdle(e.peer) {
			probed = d.postProbe(q)
		}
	}
	k.probe = false // the completion of a request in flight tells as much
	d.mu.Unlock()
	if probed {
		e.ring()
	}
	if !supervised {
		return
	}
	k.missed++
	d.refreshAfterSilence(k.missed)
	if queued && k.missed >= d.liveness.maxQueued {
		err := fmt.Errorf("queue pair %d: %w", q.info.qpn, verbs.StatusRetryExceeded)
		e.countLost(q, &suspect, err)
		d.declareBroken(e, err)
	} else if !queued && k.missed >= d.liveness.maxMissed {
		d.giveUp(e, d.explainSilence(fmt.Errorf("fabric/rdma: peer %d: %w: its device has not answered for %v", e.peer,
			fabric.ErrPeerDown, d.liveness.duration(k.missed))))
	}
}

// breakStuck declares the connection broken if a request has not been carried out for the time of a heartbeat, and reports
// whether it did: Soft-RoCE retransmits without limit what does not arrive. On the first lane that is only about a peer that
// gives signs of life; keepalive finds others.
func (d *domain) breakStuck(e *endpoint) bool {
	if int(e.keepalive.stuck) < d.liveness.maxMissed {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, q := range e.qps {
		if int(q.stuck) >= d.liveness.maxMissed && (e.keepalive.alive || !q.isMessages()) {
			err := fmt.Errorf("queue pair %d: a request was not carried out for %v: %w", q.info.qpn,
				d.liveness.duration(int(q.stuck)), verbs.StatusRetryExceeded)
			suspect := q.suspect()
			e.countLost(q, &suspect, err)
			d.declareBroken(e, e.avoid(q, err))
			return true
		}
	}
	return false
}

// postProbe posts a WRITE of no bytes, and reports whether it did. It does not if there is no room, where other
// requests show whether the device works, or if the queue pair has failed, which its completions report. The caller must hold
// d.mu.
func (d *domain) postProbe(q *queuePair) bool {
	f := verbs.Signaled | d.doorbells.atOnce
	if !d.hasRoom(q, shareAll) || q.qp.Write(q.wrID(q.tail), f, verbs.Remote{}) != nil {
		return false
	}
	q.push(request{kind: requestKeepalive}, f)
	d.inFlight[0]++
	return true
}

// checkStalled reports whether a queue pair of the endpoint has failed without a completion that says so: Soft-RoCE does not
// always complete the requests that were posted to a failed queue pair. checkStalled then declares the connection broken. It also
// lets the pacers adjust their windows.
func (d *domain) checkStalled(e *endpoint) bool {
	d.mu.Lock()
	qps, transferring, stalled := e.qps, e.ops.first != nil, false
	e.keepalive.age, e.keepalive.stuck = countUp(e.keepalive.age), 0
	for _, q := range qps {
		same := q.keepaliveHead == q.head
		stalled = stalled || (transferring || q.inFlight() > 0) && same
		if q.stuck++; q.signaled == 0 || !same {
			q.stuck = 0
		}
		e.keepalive.stuck = max(e.keepalive.stuck, q.stuck)
		q.keepaliveHead = q.head
		q.pacer.adjust()
	}
	d.mu.Unlock()
	if !stalled {
		return false
	}
	for _, q := range qps {
		if s, err := q.qp.State(); err != nil || s == verbs.StateErr {
			d.declareBroken(e, e.avoid(q, fmt.Errorf("queue pair %d: %w", q.info.qpn, verbs.ErrState)))
			return true
		}
	}
	return false
}
