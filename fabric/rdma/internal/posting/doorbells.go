package posting

import (
	"sync/atomic"
	"time"

	"github.com/ibrun/ibrun/fabric/rdma/internal/liveness"
	"github.com/ibrun/ibrun/verbs"
)

// doorbells lists the lanes with posted requests of which the device was not notified yet. If a
// doorbell is a system call, one for several messages is cheaper than one for each. If it is a
// store to memory of the device, each request has its own: to wait would only make it late. Its
// fields are guarded by Poster.Mu.
type doorbells struct {
	// atOnce is [verbs.RingDoorbell] if the doorbells of all rails are stores, otherwise 0. It is
	// constant. With it all requests are posted, so that no other doorbell is rung: queue pairs are
	// serialized then, and a doorbell must be rung with the lock held.
	atOnce verbs.Flags

	pending  atomic.Bool // deferred is not empty; atomic, so that Poll reads it without the lock
	deferred []*Lanes    // at the latest, the next Poll or the timer rings their doorbells
	timerSet bool        // Poster.RingTimer is running
}

const (
	maxUnrung = 8 // messages that may wait for one doorbell

	// maxRingDelay is how long a message may wait for a doorbell that it shares with other
	// messages.
	maxRingDelay = 50 * time.Microsecond
)

// initDoorbells decides when doorbells are rung.
func (p *Poster) initDoorbells(ringsByCall bool) {
	p.RingTimer = time.AfterFunc(liveness.Never, p.ringTimerFired)
	if !ringsByCall {
		p.doorbells.atOnce = verbs.RingDoorbell
	}
}

// RingsAtOnce reports whether each request is posted with its doorbell.
func (p *Poster) RingsAtOnce() bool { return p.doorbells.atOnce != 0 }

// Stop stops the timer, if Init was called.
func (p *Poster) Stop() {
	if p.RingTimer != nil {
		p.RingTimer.Stop()
	}
}

// deferRing leaves ringing the doorbells to RingDeferred.
func (b *doorbells) deferRing(l *Lanes) {
	if !l.deferred {
		l.deferred = true
		b.deferred = append(b.deferred, l)
		b.pending.Store(true)
	}
}

// startTimer makes the timer ring the deferred doorbells in case that nothing calls Poll.
func (p *Poster) startTimer() {
	if !p.doorbells.timerSet {
		p.doorbells.timerSet = true
		p.RingTimer.Reset(maxRingDelay)
	}
}

// take removes and returns one of the deferred lanes, nil if there is none.
func (b *doorbells) take() *Lanes {
	n := len(b.deferred)
	if n == 0 {
		b.pending.Store(false)
		return nil
	}
	l := b.deferred[n-1]
	b.deferred[n-1] = nil
	b.deferred = b.deferred[:n-1]
	return l
}

// RingLater leaves ringing the doorbells of a connection to the next Poll, unless its requests were
// posted with them.
func (p *Poster) RingLater(l *Lanes) {
	if p.doorbells.atOnce == 0 {
		p.doorbells.deferRing(l)
	}
}

// Pending reports whether doorbells are to be rung. It needs no lock.
func (p *Poster) Pending() bool { return p.doorbells.pending.Load() }

// RingDeferred rings all deferred doorbells. Any goroutine may call it. It takes the lock.
func (p *Poster) RingDeferred() {
	for {
		p.Mu.Lock()
		l := p.doorbells.take()
		p.Mu.Unlock()
		if l == nil {
			return
		}
		p.Ring(l)
	}
}

// ringTimerFired is called by the timer, in a goroutine of its own.
func (p *Poster) ringTimerFired() {
	p.Mu.Lock()
	p.doorbells.timerSet = false
	p.Mu.Unlock()
	p.RingDeferred()
}

// Ring rings the doorbells of all queue pairs of a connection, unless the requests were posted with
// them. It takes the lock.
func (p *Poster) Ring(l *Lanes) {
	if p.doorbells.atOnce != 0 {
		return
	}
	p.Mu.Lock()
	l.deferred = false
	queues := l.Queues
	for _, q := range queues {
		q.unrung = 0
	}
	p.Mu.Unlock()
	RingAll(queues)
}

// RingAll rings the doorbells of queue pairs. The caller must not hold the lock: each may be a
// system call.
func RingAll(queues []*QueuePair) {
	for _, q := range queues {
		_ = q.QP.Ring() // an error shows in completions or by the keepalive
	}
}
