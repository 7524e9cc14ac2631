package posting

import (
	"slices"

	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/transfer"
)

// Lanes are the queue pairs of the connection to one peer, with the transfers that are posted to
// them. The zero Lanes has no connection.
type Lanes struct {
	// Queues are those of the first rail first, and the one for messages before all.
	Queues  []*QueuePair
	Keys    cm.KeyTable   // of the peer
	Ops     transfer.List // the transfers with the peer
	Window  int           // initial window of the pacers of the next connection, 0: the default
	CanPost bool          // requests may be posted

	deferred bool  // is in doorbells.deferred
	first    uint8 // how many queues are on the first rail
}

// Messages returns the queue pair that carries messages, nil without a connection. The goroutine
// that calls Poll needs no lock for it.
func (l *Lanes) Messages() *QueuePair {
	if len(l.Queues) == 0 {
		return nil
	}
	return l.Queues[0]
}

// set sets the queue pairs of the connection.
func (l *Lanes) set(queues []*QueuePair) {
	l.Queues, l.first = queues, 0
	for _, q := range queues {
		if q.Rail.Index == 0 {
			l.first++
		}
	}
}

// Idle reports whether there are no transfers.
func (l *Lanes) Idle() bool { return l.Ops.First == nil }

// Uses reports whether the connection has a queue pair on the rail.
func (l *Lanes) Uses(r *Rail) bool {
	return slices.ContainsFunc(l.Queues, func(q *QueuePair) bool { return q.Rail == r })
}

// needsKeys reports whether a transfer is to use rails beyond the first: the rail that it is
// restricted to, or all rails if it is long enough for two pieces.
func (l *Lanes) needsKeys(o *transfer.Op) bool {
	if len(l.Queues) == int(l.first) || o.Rail == 0 {
		return false
	}
	return o.Rail > 0 || o.Bytes >= 2*l.Queues[0].Rail.Piece
}

// choose returns the queue pair for the next piece of a transfer: of those that the transfer may
// use, the one with the fewest requests in flight; nil if none has room.
func (l *Lanes) choose(o *transfer.Op) *QueuePair {
	queues := l.Queues
	switch o.NextCarriers(int(l.first), len(queues)) {
	case transfer.NoLane:
		return nil
	case transfer.FirstLanes:
		queues = queues[:l.first]
	case transfer.LanesOfRail:
		queues = l.of(int(o.Rail))
	}
	var best *QueuePair
	for _, q := range queues {
		room := q.Pacer.Room() && q.hasRoom(ShareTransfers)
		if room && (best == nil || q.InFlight() < best.InFlight()) {
			best = q
		}
	}
	return best
}

// of returns the lanes of a rail, all lanes if the connection does without that rail.
func (l *Lanes) of(rail int) []*QueuePair {
	on := func(q *QueuePair) bool { return q.Rail.Index == rail }
	first := slices.IndexFunc(l.Queues, on)
	if first < 0 {
		return l.Queues
	}
	last := first + 1
	for last < len(l.Queues) && on(l.Queues[last]) {
		last++
	}
	return l.Queues[first:last]
}
