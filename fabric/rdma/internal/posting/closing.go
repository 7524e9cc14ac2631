package posting

import (
	"slices"

	"github.com/ibrun/ibrun/verbs"
)

// Before a queue pair is closed, its state is changed to ERR. The device then flushes what it has
// not carried out. The last completions of sends have all arrived when that of a marker has, which
// is posted last. Those of receives have when the device raises EventLastWQE if the receive queue
// is shared; otherwise, when none is posted.

// Fail ends what the queue pairs of a connection do, and begins to flush them. It takes the lock.
func (p *Poster) Fail(l *Lanes) {
	p.Mu.Lock()
	l.CanPost = false
	queues := l.Queues
	p.Mu.Unlock()
	for _, q := range queues {
		_ = q.QP.Modify(verbs.Attr{State: verbs.StateErr}, verbs.AttrState) // if it fails, Close ends the requests as well
		if !q.Rail.KeepsCompletions {
			p.marker(q)
		}
	}
}

// marker posts the last request of a queue pair. The device flushes it after all others.
func (p *Poster) marker(q *QueuePair) {
	p.Mu.Lock()
	posted := p.postEmpty(q, Marker)
	q.Flushed = !posted // there is no room, the queue pair was never connected, or the device is lost
	p.Mu.Unlock()
	if posted && p.doorbells.atOnce == 0 {
		_ = q.QP.Ring() // an error means that the device is lost
	}
}

// IsFlushed reports whether the last completions of all queue pairs of a connection have arrived,
// or need not be waited for. It takes the lock.
func (p *Poster) IsFlushed(l *Lanes) bool {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	return !slices.ContainsFunc(l.Queues, func(q *QueuePair) bool {
		return !q.Rail.KeepsCompletions && !q.Rail.Lost && !q.isFlushed()
	})
}

// isFlushed reports whether the last completions of a queue pair have arrived.
func (q *QueuePair) isFlushed() bool {
	if q.Recvs != nil && q.Recvs.Posted() > 0 || q.IsMessages() && q.Rail.Shared && q.Connected && !q.LastWQE {
		return false
	}
	return q.Flushed
}
