package liveness

import "time"

// MaxVisits is how many connected peers one tick visits: that takes some 20 µs.
const MaxVisits = 128

// Ring holds the connected peers. It visits each of them once in a keepalive interval. The visits
// are spread over the interval, so that a tick visits at most MaxVisits peers, however many there
// are.
type Ring[E any] struct {
	Peers []E
	Next  int           // index of the peer that is visited next
	At    time.Duration // when the next batch is due
}

// Add adds a peer, which must not be in the ring.
func (r *Ring[E]) Add(e E, l *Limits, c *Clock) {
	if len(r.Peers) == 0 {
		r.Next, r.At = 0, c.Elapsed()+l.Interval
	}
	r.Peers = append(r.Peers, e)
	c.Schedule(r.At)
}

// Turn returns the peer that is visited next. The ring must not be empty.
func (r *Ring[E]) Turn() E {
	if r.Next >= len(r.Peers) {
		r.Next = 0
	}
	return r.Peers[r.Next]
}

// Visited ends the turn of a peer, which stays in the ring.
func (r *Ring[E]) Visited() { r.Next++ }

// RemoveNext removes the peer that Turn has returned. The last peer takes its place: it was not
// visited in this round either.
func (r *Ring[E]) RemoveNext() {
	last := len(r.Peers) - 1
	r.Peers[r.Next] = r.Peers[last]
	var none E
	r.Peers[last] = none // releases its memory
	r.Peers = r.Peers[:last]
}

// Due returns how many peers are to be visited now, and sets when the next are. If this process did
// not poll for a while, those that were due meanwhile are visited now, each of them once.
func (r *Ring[E]) Due(now, interval time.Duration) int {
	if now < r.At || len(r.Peers) == 0 {
		return 0
	}
	batches := (len(r.Peers) + MaxVisits - 1) / MaxVisits
	step := interval / time.Duration(batches)
	late := min(int((now-r.At)/max(step, 1)), batches-1)
	r.At = now + step
	return min(len(r.Peers), (1+late)*((len(r.Peers)+batches-1)/batches))
}
