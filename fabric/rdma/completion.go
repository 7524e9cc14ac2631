package rdma

import (
	"fmt"

	"github.com/ibrun/ibrun/fabric/rdma/internal/posting"
	"github.com/ibrun/ibrun/verbs"
)

// pollSends handles completions of requests that were posted on a rail, and returns how many there were.
func (d *domain) pollSends(r *rail) (int, error) {
	n, err := r.SendCQ.Poll(d.polling.wcs[:])
	d.sleeper.MoreReady = d.sleeper.MoreReady || n == len(d.polling.wcs)
	if n > 0 {
		d.poster.Mu.Lock()
		for i := range d.polling.wcs[:n] {
			d.handleSend(r, &d.polling.wcs[i])
		}
		d.poster.Mu.Unlock()
	}
	if err != nil {
		return n, d.railLost(r, err)
	}
	return n, nil
}

// completeSends handles completions of requests on the first rail, and reports whether there were any. It may be called while
// completions of receives are being handled.
func (d *domain) completeSends() bool {
	r := d.rails[0]
	n, _ := r.SendCQ.Poll(d.polling.sends[:]) // the next pollSends finds the same error
	if n > 0 {
		d.poster.Mu.Lock()
		for i := range d.polling.sends[:n] {
			d.handleSend(r, &d.polling.sends[i])
		}
		d.poster.Mu.Unlock()
	}
	return n > 0
}

// handleSend handles one completion. It also completes all requests that were posted before, because those without
// [verbs.Signaled] have no completion of their own. The caller must hold the lock of the poster.
func (d *domain) handleSend(r *rail, wc *verbs.WC) {
	q := d.poster.Find(&r.room, wc.QPN)
	if q == nil {
		if r.IsDatagram(wc.QPN) {
			d.handleDatagramSent(wc)
		}
		return
	}
	e := d.eps[q.Peer]
	n, ok := q.Lookup(wc.ID)
	if !ok {
		return
	}
	if e.teardown != nil && n+1 == q.Next() {
		q.Flushed = true // this is the marker
		d.cm.closing.LastCompletion(e.teardown)
	}
	if q.Failed {
		return
	}
	for q.Oldest() != n {
		d.completeOldest(e, q)
	}
	if wc.Status == verbs.StatusSuccess {
		d.completeOldest(e, q)
		e.keepalive.Alive = true
		if e.lanes.Ops.Unposted != nil {
			d.poster.Pieces(&e.lanes)
			d.poster.RingLater(&e.lanes)
		}
		return
	}
	q.Failed = true // requests that were posted later fail as well, and none of them was carried out
	if o := q.At(n).Op; o != nil && o.Err == nil && isRequestError(wc.Status) {
		verb := "read from"
		if o.Write {
			verb = "write to"
		}
		o.Err = fmt.Errorf("fabric/rdma: %s peer %d: %w", verb, e.peer, wc.Err())
	}
	if e.lanes.CanPost {
		e.lanes.CanPost = false
		err := wc.Err()
		e.countLost(q, q.At(n), err)
		if isLaneError(wc.Status) {
			err = e.avoid(q, err)
		}
		e.declareBroken(err)
	}
}

// isRequestError reports whether a status means that the request itself was wrong, so that it would fail again over another
// connection. [verbs.StatusLocalQPOperation] is not among them: Soft-RoCE reports it when the link is down.
func isRequestError(s verbs.Status) bool {
	switch s {
	case verbs.StatusRemoteAccess, verbs.StatusRemoteInvalid, verbs.StatusRemoteOperation, verbs.StatusLocalProtection,
		verbs.StatusLocalLength:
		return true
	}
	return false
}

// completeOldest removes the oldest request of a queue pair, which was carried out. The caller must hold the lock of
// the poster.
func (d *domain) completeOldest(e *endpoint, q *posting.QueuePair) {
	r, ended := d.poster.Complete(q)
	switch r.Kind {
	case posting.Message, posting.Control, posting.Disconnect:
		d.sleeper.SendsFreed = true
		e.retry.acknowledged(&r)
		if r.Kind == posting.Disconnect {
			d.disconnected(e)
		}
	case posting.Piece:
		e.retry.acknowledged(&r)
		if ended {
			e.endOp(r.Op, nil)
		}
	case posting.Keepalive:
		if q.InFlight() == 0 && e.lanes.Idle() {
			e.retry.KeepaliveAcknowledged()
		}
	}
}
