package liveness

import (
	"slices"
	"testing"
	"time"
)

// TestRingVisitsEach: in each interval every peer is visited, at most MaxVisits at a time.
func TestRingVisitsEach(t *testing.T) {
	for _, peers := range []int{1, MaxVisits, MaxVisits + 1, 1000} {
		l := NewLimits(15 * time.Second)
		c := Clock{Next: Never, Start: time.Now()}
		var r Ring[int]
		for p := range peers {
			r.Add(p, &l, &c)
		}
		if c.Next != r.At {
			t.Errorf("%d peers: the next timer is at %v, the next visits are at %v", peers, c.Next, r.At)
		}
		visits := make([]int, peers)
		for end := r.At + l.Interval - time.Millisecond; r.At < end; {
			n := r.Due(r.At, l.Interval)
			if n > MaxVisits || n == 0 {
				t.Fatalf("%d peers: %d visits at a time", peers, n)
			}
			for range n {
				visits[r.Turn()]++
				r.Visited()
			}
		}
		for p, n := range visits {
			if n < 1 || n > 2 { // batches have the same size, so a few may be visited again
				t.Errorf("%d peers: peer %d was visited %d times", peers, p, n)
			}
		}
	}
}

// TestRingRemove: the last peer takes the place of one that leaves the ring, and is visited in the
// same round. A ring that becomes empty begins again when a peer is added.
func TestRingRemove(t *testing.T) {
	l := NewLimits(15 * time.Second)
	c := Clock{Next: Never, Start: time.Now()}
	var r Ring[int]
	for p := range 4 {
		r.Add(p, &l, &c)
	}
	var got []int
	for range 4 {
		p := r.Turn()
		if got = append(got, p); p%2 == 0 {
			r.RemoveNext()
		} else {
			r.Visited()
		}
	}
	if want := []int{0, 3, 1, 2}; !slices.Equal(got, want) || !slices.Equal(r.Peers, []int{3, 1}) {
		t.Errorf("the visits are %v, want %v; left are %v", got, want, r.Peers)
	}
	for len(r.Peers) > 0 {
		r.Turn()
		r.RemoveNext()
	}
	if n := r.Due(time.Hour, l.Interval); n != 0 {
		t.Errorf("%d visits of an empty ring", n)
	}
	if r.Add(5, &l, &c); r.Turn() != 5 || r.At > c.Elapsed()+l.Interval {
		t.Errorf("added again: %+v", r)
	}
}

// TestRingLate: after a pause without Polls each peer is visited once, not once for every interval.
func TestRingLate(t *testing.T) {
	l := NewLimits(15 * time.Second)
	c := Clock{Next: Never, Start: time.Now()}
	var r Ring[int]
	const peers = 3*MaxVisits + 1
	for p := range peers {
		r.Add(p, &l, &c)
	}
	if n := r.Due(r.At-1, l.Interval); n != 0 {
		t.Errorf("%d visits before they are due", n)
	}
	if n := r.Due(r.At+time.Hour, l.Interval); n != peers {
		t.Errorf("%d visits after an hour, want %d", n, peers)
	}
}
