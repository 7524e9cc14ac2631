package rdma

import (
	"fmt"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/verbs"
)

// complete takes what a rail has done, and reports how many completions there were.
func (d *domain) complete(r *rail) (int, error) {
	n, err := r.sent.Poll(d.wcs[:])
	d.more = d.more || n == len(d.wcs)
	if n > 0 {
		d.mu.Lock()
		for i := range d.wcs[:n] {
			d.completed(r, &d.wcs[i])
		}
		d.mu.Unlock()
	}
	if err != nil {
		return n, fmt.Errorf("fabric/rdma: %w", err)
	}
	return n, nil
}

// completed takes one completion: what was posted before it is done as well. The caller holds the lock.
func (d *domain) completed(r *rail, wc *verbs.WC) {
	if wc.QPN == r.posted.Num() {
		if d.office.sent(wc); d.office.sick {
			d.next = 0
		}
		return
	}
	e := d.byNum.find(r, wc.QPN)
	if e == nil {
		return
	}
	q := e.queues[r.index]
	n, ok := q.covers(wc.ID)
	if !ok || q.failed {
		return
	}
	for q.head != n {
		d.done(e, q)
	}
	if wc.Status == verbs.StatusSuccess {
		d.done(e, q)
		e.alive = true
		if e.unposted != nil {
			d.pump(e)
			d.soil(e)
		}
		return
	}
	q.failed = true // what was posted later fails as well, and nothing of it is done
	if o := q.fifo[n%depth].op; o != nil && o.err == nil && blames(wc.Status) {
		verb := "read from"
		if o.write {
			verb = "write to"
		}
		o.err = fmt.Errorf("fabric/rdma: %s peer %d: %w", verb, e.peer, wc.Err())
	}
	if e.up {
		e.up = false
		d.broke(e, wc.Err())
	}
}

// blames tells whether a status says that the request itself was wrong, so that it would fail again. Soft-RoCE reports
// StatusLocalQPOperation when the link is down.
func blames(s verbs.Status) bool {
	switch s {
	case verbs.StatusRemoteAccess, verbs.StatusRemoteInvalid, verbs.StatusRemoteOperation, verbs.StatusLocalProtection,
		verbs.StatusLocalLength:
		return true
	}
	return false
}

// done takes the oldest request off a queue pair. The caller holds the lock.
func (d *domain) done(e *endpoint, q *queue) {
	r := q.pop()
	d.under[q.rail.index]--
	switch r.work {
	case workMessage, workNotice, workBye:
		d.sends.give(r.slot)
		d.room = true
		e.tries = 0
		if r.work == workBye {
			d.farewell(e)
		}
	case workBeat:
		e.beating = false
	case workKeys:
		d.fetched(r.op, r.slot)
	case workPiece:
		e.tries = 0
		q.pacer.done(int(r.bytes))
		if r.op.done += int(r.bytes); r.op.done == r.op.bytes && r.op.err == nil {
			d.end(e, r.op, nil)
		}
	}
}

// farewell is called when the peer has got our goodbye.
func (d *domain) farewell(e *endpoint) {
	e.bye = byeDone
	if e.ended.Load() != nil {
		d.broke(e, fabric.ErrClosed)
	}
}
