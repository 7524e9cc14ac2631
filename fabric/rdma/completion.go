package rdma

import (
	"fmt"

	"github.com/ibrun/ibrun/verbs"
)

// pollSends handles completions of requests that were posted on a rail, and returns how many there were.
func (d *domain) pollSends(r *rail) (int, error) {
	n, err := r.SendCQ.Poll(d.wcs[:])
	d.sleeper.MoreReady = d.sleeper.MoreReady || n == len(d.wcs)
	if n > 0 {
		d.mu.Lock()
		for i := range d.wcs[:n] {
			d.handleSend(r, &d.wcs[i])
		}
		d.mu.Unlock()
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
	n, _ := r.SendCQ.Poll(d.sendWCs[:]) // the next pollSends finds the same error
	if n > 0 {
		d.mu.Lock()
		for i := range d.sendWCs[:n] {
			d.handleSend(r, &d.sendWCs[i])
		}
		d.mu.Unlock()
	}
	return n > 0
}

// handleSend handles one completion. It also completes all requests that were posted before, because those without
// [verbs.Signaled] have no completion of their own. The caller must hold d.mu.
func (d *domain) handleSend(r *rail, wc *verbs.WC) {
	q := d.byQPN.find(r, wc.QPN)
	if q == nil {
		if r.IsDatagram(wc.QPN) {
			d.handleDatagramSent(wc)
		}
		return
	}
	e := q.ep
	n, ok := q.lookup(wc.ID)
	if !ok {
		return
	}
	if e.teardown != nil && n+1 == q.tail {
		q.flushed = true // this is the marker
		d.cm.closing.lastCompletion(e)
	}
	if q.failed {
		return
	}
	for q.head != n {
		d.completeOldest(e, q)
	}
	if wc.Status == verbs.StatusSuccess {
		d.completeOldest(e, q)
		e.keepalive.Alive = true
		if e.ops.Unposted != nil {
			d.postPieces(e)
			if d.doorbells.atOnce == 0 {
				d.doorbells.deferRing(e)
			}
		}
		return
	}
	q.failed = true // requests that were posted later fail as well, and none of them was carried out
	if o := q.at(n).op; o != nil && o.Err == nil && isRequestError(wc.Status) {
		verb := "read from"
		if o.Write {
			verb = "write to"
		}
		o.Err = fmt.Errorf("fabric/rdma: %s peer %d: %w", verb, e.peer, wc.Err())
	}
	if e.canPost {
		e.canPost = false
		err := wc.Err()
		e.countLost(q, q.at(n), err)
		if isLaneError(wc.Status) {
			err = e.avoid(q, err)
		}
		d.declareBroken(e, err)
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

// completeOldest removes the oldest request of a queue pair, which was carried out. The caller must hold d.mu.
func (d *domain) completeOldest(e *endpoint, q *queuePair) {
	r := q.pop()
	d.inFlight[q.rail.Index]--
	switch r.kind {
	case requestMessage, requestControl, requestDisconnect:
		d.sends.Give(r.slot)
		d.sleeper.SendsFreed = true
		e.acknowledged(&r)
		if r.kind == requestDisconnect {
			d.disconnected(e)
		}
	case requestKeyRead:
		d.keysRead(r.op, r.slot)
	case requestPiece:
		r.op.Done += int(r.bytes)
		e.acknowledged(&r)
		q.pacer.Done(int(r.bytes))
		if r.op.Done == r.op.Bytes && r.op.Err == nil {
			d.endOp(e, r.op, nil)
		}
	case requestKeepalive:
		if q.inFlight() == 0 && e.ops.First == nil {
			e.retry.KeepaliveAcknowledged()
		}
	}
}
