package rdma

import (
	"fmt"

	"github.com/ibrun/ibrun/fabric/rdma/internal/liveness"
	"github.com/ibrun/ibrun/fabric/rdma/internal/messages"
	"github.com/ibrun/ibrun/fabric/rdma/internal/posting"
	"github.com/ibrun/ibrun/fabric/rdma/internal/sleep"
	"github.com/ibrun/ibrun/verbs"
)

// completions polls the completion queues of the rails, and handles what it finds: received messages
// and datagrams (receive.go), requests that were carried out or have failed, and lost rails
// (device_lost.go). It belongs to the goroutine that calls Poll.
type completions struct {
	// The domain sets these once, when it opens. They are before the arrays, because every Poll reads
	// some of them.
	all     []*rail // the first carries messages and datagrams
	clock   *liveness.Clock
	events  *messages.Events
	sleeper *sleep.Sleeper
	poster  *posting.Poster
	recvs   *messages.Receives
	eps     peers
	cm      *connManager

	live  []*rail // of all, those whose devices are not lost
	wcs   [16]verbs.WC
	sends [16]verbs.WC // of completeSends, which may be called while those in wcs are being handled
}

// pollSends handles completions of requests that were posted on a rail, and returns how many there were.
func (c *completions) pollSends(r *rail) (int, error) {
	n, err := r.SendCQ.Poll(c.wcs[:])
	c.sleeper.MoreReady = c.sleeper.MoreReady || n == len(c.wcs)
	c.handleSends(r, c.wcs[:n])
	if err != nil {
		return n, c.railLost(r, err)
	}
	return n, nil
}

// completeSends handles completions of requests on the first rail, and reports whether there were any. It may be called while
// completions of receives are being handled.
func (c *completions) completeSends() bool {
	r := c.all[0]
	n, _ := r.SendCQ.Poll(c.sends[:]) // the next pollSends finds the same error
	c.handleSends(r, c.sends[:n])
	return n > 0
}

// handleSends handles completions of requests that were posted on a rail.
func (c *completions) handleSends(r *rail, wcs []verbs.WC) {
	if len(wcs) == 0 {
		return
	}
	c.poster.Mu.Lock()
	for i := range wcs {
		c.handleSend(r, &wcs[i])
	}
	c.poster.Mu.Unlock()
}

// handleSend handles one completion. It also completes all requests that were posted before, because those without
// [verbs.Signaled] have no completion of their own. The caller must hold the lock of the poster.
func (c *completions) handleSend(r *rail, wc *verbs.WC) {
	q := c.poster.Find(&r.room, wc.QPN)
	if q == nil {
		if r.IsDatagram(wc.QPN) {
			c.cm.sent(wc)
		}
		return
	}
	e := c.eps[q.Peer]
	n, ok := q.Lookup(wc.ID)
	if !ok {
		return
	}
	if e.teardown != nil && n+1 == q.Next() {
		q.Flushed = true // this is the marker
		c.cm.closing.LastCompletion(e.teardown)
	}
	if q.Failed {
		return
	}
	for q.Oldest() != n {
		c.completeOldest(e, q)
	}
	if wc.Status == verbs.StatusSuccess {
		c.completeOldest(e, q)
		e.keepalive.Alive = true
		if e.lanes.Ops.Unposted != nil {
			c.poster.Pieces(&e.lanes)
			c.poster.RingLater(&e.lanes)
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
func (c *completions) completeOldest(e *endpoint, q *posting.QueuePair) {
	r, ended := c.poster.Complete(q)
	switch r.Kind {
	case posting.Message, posting.Control, posting.Disconnect:
		c.sleeper.SendsFreed = true
		e.retry.acknowledged(r)
		if r.Kind == posting.Disconnect {
			e.disconnected()
		}
	case posting.Piece:
		e.retry.acknowledged(r)
		if ended {
			e.endOp(r.Op, nil)
		}
		r.Op = nil
	case posting.Keepalive:
		if q.InFlight() == 0 && e.lanes.Idle() {
			e.retry.KeepaliveAcknowledged()
		}
	}
}

// pollReceives takes the completions of received messages from the device, unless many messages wait for the caller already.
func (c *completions) pollReceives() (int, error) {
	c.clock.Polls++
	if c.events.Queued() >= 2*len(c.wcs) {
		return 0, nil
	}
	n, err := c.all[0].RecvCQ.Poll(c.wcs[:])
	c.sleeper.MoreReady = c.sleeper.MoreReady || n == len(c.wcs)
	return n, err
}

// drainCQs handles the completions of everything that has arrived and of everything that was sent.
func (c *completions) drainCQs() error {
	if err := c.drainReceives(); err != nil {
		return err
	}
	for _, r := range c.live {
		if err := c.drainSends(r); err != nil {
			return err
		}
	}
	return nil
}

// drainReceives handles the completions of everything that has arrived.
func (c *completions) drainReceives() error {
	for n := 1; n > 0; {
		var err error
		n, err = c.all[0].RecvCQ.Poll(c.wcs[:])
		if err := c.handleReceives(n, err); err != nil {
			return err
		}
	}
	return nil
}

// drainSends handles the completions of everything that was sent on a rail.
func (c *completions) drainSends(r *rail) error {
	for n := 1; n > 0; {
		var err error
		if n, err = c.pollSends(r); err != nil {
			return err
		}
	}
	return nil
}

// pollAllSends handles the completions of all requests that have completed. The keepalive needs it: after a time in which this
// process did not poll, the signs of life of many peers may be waiting in the completion queues.
func (c *completions) pollAllSends() error {
	for _, r := range c.live {
		for n, left := len(c.wcs), r.room.MaxInFlight; n == len(c.wcs) && left > 0; left -= n {
			var err error
			if n, err = c.pollSends(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// drainLost receives what has arrived before the device of the first rail was lost. Its completions are still there.
func (c *completions) drainLost() {
	_ = c.drainReceives() // an error says once more that the device is lost
	_ = c.drainSends(c.all[0])
}
