package rdma

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/ibrun/ibrun/verbs"
)

// doorbells lists the endpoints with posted requests of which the device was not notified yet. If a doorbell is a system call,
// one for several messages is cheaper than one for each. If it is a store to memory of the device, each request has its own: to
// wait would only make it late. Its fields are guarded by domain.mu.
type doorbells struct {
	// atOnce is [verbs.RingDoorbell] if the doorbells of all rails are stores, otherwise 0. It is constant. With it all requests are
	// posted, so that no other doorbell is rung: see rail.Serialized.
	atOnce verbs.Flags

	pending  atomic.Bool // deferred is not empty; atomic, so that Poll reads it without the lock
	deferred []*endpoint // at the latest, the next Poll or the timer rings their doorbells
	timer    *time.Timer
	timerSet bool // the timer is running
}

// maxRingDelay is how long a message may wait for a doorbell that it shares with other messages.
const maxRingDelay = 50 * time.Microsecond

// chooseDoorbells decides when doorbells are rung. It must be called before a connection is made.
func (d *domain) chooseDoorbells() {
	if slices.ContainsFunc(d.rails, func(r *rail) bool { return r.Dev.DoorbellIsCall() }) {
		return
	}
	d.doorbells.atOnce = verbs.RingDoorbell
	for _, r := range d.rails {
		r.Serialized = true
	}
}

// deferRing leaves ringing the endpoint's doorbell to ringDeferred. The caller must hold d.mu.
func (b *doorbells) deferRing(e *endpoint) {
	if !e.ringDeferred {
		e.ringDeferred = true
		b.deferred = append(b.deferred, e)
		b.pending.Store(true)
	}
}

// startTimer makes the timer ring the deferred doorbells in case that nothing calls Poll. The caller must hold d.mu.
func (b *doorbells) startTimer() {
	if !b.timerSet {
		b.timerSet = true
		b.timer.Reset(maxRingDelay)
	}
}

// take removes and returns one of the deferred endpoints, nil if there is none. The caller must hold d.mu.
func (b *doorbells) take() *endpoint {
	n := len(b.deferred)
	if n == 0 {
		b.pending.Store(false)
		return nil
	}
	e := b.deferred[n-1]
	b.deferred[n-1] = nil
	b.deferred = b.deferred[:n-1]
	return e
}

// ringDeferred rings all deferred doorbells. Any goroutine may call it.
func (d *domain) ringDeferred() {
	for {
		d.mu.Lock()
		e := d.doorbells.take()
		d.mu.Unlock()
		if e == nil {
			return
		}
		e.ring()
	}
}

// ringTimerFired is called by the timer, in a goroutine of its own.
func (d *domain) ringTimerFired() {
	d.mu.Lock()
	d.doorbells.timerSet = false
	d.mu.Unlock()
	d.ringDeferred()
}

// ring rings the doorbells of all queue pairs of the endpoint, unless the requests were posted with them.
func (e *endpoint) ring() {
	if e.d.doorbells.atOnce != 0 {
		return
	}
	e.d.mu.Lock()
	e.ringDeferred = false
	qps := e.qps
	for _, q := range qps {
		q.unrung = 0
	}
	e.d.mu.Unlock()
	for _, q := range qps {
		_ = q.qp.Ring() // an error shows in completions or by the keepalive
	}
}
