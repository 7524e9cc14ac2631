package rdma

import (
	"fmt"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/liveness"
	"github.com/ibrun/ibrun/fabric/rdma/internal/messages"
	"github.com/ibrun/ibrun/verbs"
)

// maxQueueAhead is how many requests a keepalive WRITE may be posted behind and still count as answered in time.
const maxQueueAhead = 2

// keepaliveTick visits the connected peers whose turn it is. It returns the error of a lost device.
func (d *domain) keepaliveTick(now time.Duration) error {
	r := &d.keepalives
	n := r.Due(now, d.liveness.Interval)
	if n > 0 {
		if err := d.completions.pollAllSends(); err != nil {
			return err
		}
	}
	for ; n > 0 && len(r.Peers) > 0; n-- {
		e := r.Turn()
		if e.conn.State != cm.StateEstablished {
			e.inRing = false
			r.RemoveNext()
			continue
		}
		r.Visited()
		e.visit()
		if e.disconnect == disconnectDue {
			e.trySendControl(messages.DREQ)
		}
	}
	if len(r.Peers) > 0 {
		d.clock.Schedule(r.At)
	}
	return nil
}

// visit visits a connected peer: it checks for a sign of life, or probes the peer by a WRITE of no bytes. See liveness.State.
func (e *endpoint) visit() {
	d := e.d
	if e.checkStalled() || d.returnLanes(e) || e.breakStuck() {
		return
	}
	k := &e.keepalive
	if k.Answered() {
		return
	}
	d.poster.Mu.Lock()
	q := e.lanes.Queues[0]
	supervised, probed, suspect := q.Supervised(), false, q.Suspect()
	queued := q.Pieces() > 0 || q.InFlight() > maxQueueAhead || suspect.Bytes > smallestMTU
	if !supervised && k.ProbeDue(q.InFlight() > 0, d.liveness.MaxIdle(e.peer)) {
		probed = d.poster.Probe(q)
	}
	k.Probe = false // the completion of a request in flight tells as much
	d.poster.Mu.Unlock()
	if probed {
		d.poster.Ring(&e.lanes)
	}
	if !supervised {
		return
	}
	verdict := k.Miss(&d.liveness, queued)
	d.cm.refreshAfterSilence(int(k.Missed))
	switch verdict {
	case liveness.Break:
		err := fmt.Errorf("queue pair %d: %w", q.Info.QPN, verbs.StatusRetryExceeded)
		e.countLost(q, &suspect, err)
		e.declareBroken(err)
	case liveness.Down:
		err := fmt.Errorf("fabric/rdma: peer %d: %w: its device has not answered for %v", e.peer, fabric.ErrPeerDown,
			d.liveness.Duration(int(k.Missed)))
		d.takeover.giveUp(e, d.rails[0].explainSilence(err))
	}
}

// breakStuck declares the connection broken if a request has not been carried out for the time of a heartbeat, and reports
// whether it did: Soft-RoCE retransmits without limit what does not arrive.
func (e *endpoint) breakStuck() bool {
	d := e.d
	if int(e.keepalive.Stuck) < d.liveness.MaxMissed {
		return false
	}
	d.poster.Mu.Lock()
	defer d.poster.Mu.Unlock()
	for _, q := range e.lanes.Queues {
		if e.keepalive.IsStuck(&q.Progress, &d.liveness, q.IsMessages()) {
			err := fmt.Errorf("queue pair %d: a request was not carried out for %v: %w", q.Info.QPN,
				d.liveness.Duration(int(q.Progress.Stuck)), verbs.StatusRetryExceeded)
			suspect := q.Suspect()
			e.countLost(q, &suspect, err)
			e.declareBroken(e.avoid(q, err))
			return true
		}
	}
	return false
}

// checkStalled reports whether a queue pair of the endpoint has failed without a completion that says so: Soft-RoCE does not
// always complete the requests that were posted to a failed queue pair. checkStalled then declares the connection broken. It also
// lets the pacers adjust their windows.
func (e *endpoint) checkStalled() bool {
	d := e.d
	d.poster.Mu.Lock()
	qps, transferring, stalled := e.lanes.Queues, !e.lanes.Idle(), false
	e.keepalive.Visit()
	for _, q := range qps {
		same := e.keepalive.Look(&q.Progress, q.Oldest(), q.Supervised())
		stalled = stalled || (transferring || q.InFlight() > 0) && same
		q.Pacer.Adjust()
	}
	d.poster.Mu.Unlock()
	if !stalled {
		return false
	}
	for _, q := range qps {
		if s, err := q.QP.State(); err != nil || s == verbs.StateErr {
			e.declareBroken(e.avoid(q, fmt.Errorf("queue pair %d: %w", q.Info.QPN, verbs.ErrState)))
			return true
		}
	}
	return false
}
