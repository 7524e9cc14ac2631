package clocks

import (
	"math"
	"testing"

	"github.com/ibrun/ibrun/mpi/internal/clocksync"
)

// TestAllowedError: the clocks agree if the two worst errors add up to less than half of the
// fastest round trip.
func TestAllowedError(t *testing.T) {
	by := func(rank int, err, trip int64) leaderState {
		return leaderState{rank, clocksync.Bound{Error: err, Growth: 1}, trip}
	}
	for _, c := range []struct {
		clocks []leaderState
		rank   int
		at     int64
		want   int64
	}{
		{[]leaderState{by(1, 10, 100)}, 0, 0, 40},
		{[]leaderState{by(1, 10, 100)}, 0, 20, 20}, // bounds grow
		{[]leaderState{by(1, 50, 100)}, 0, 0, -1},
		{[]leaderState{by(1, 50, 100)}, 1, 0, 50},
		{[]leaderState{by(1, 10, 100), by(3, 10, 30)}, 0, 0, -1},
		{[]leaderState{by(1, 10, 100), by(3, 10, 30)}, 3, 0, 5},
		{[]leaderState{by(1, 10, 100), by(3, 10, 42), by(4, 1, 900)}, 0, 0, 11},
		{[]leaderState{by(1, 10, 100), by(3, 10, 42), by(4, 1, 900)}, 4, 0, 11},
		{[]leaderState{by(1, 10, 100), by(3, 11, 42), by(4, 1, 900)}, 4, 0, -1},
	} {
		if got := allowedError(c.clocks, c.rank, c.at); got != c.want {
			t.Errorf("%v: rank %d may have an error of %d at %d, want %d", c.clocks, c.rank, got, c.at, c.want)
		}
	}
	for _, x := range []int64{-1, 0, 5, math.MaxInt64 - 1} {
		if got := decodeAllowed(encodeAllowed(x)); got != x {
			t.Errorf("%d became %d", x, got)
		}
	}
}

// TestClocksAgree: WtimeIsGlobal follows the bounds in all roles, also when no more corrections
// arrive.
func TestClocksAgree(t *testing.T) {
	var now int64
	source := clocksync.Source{Now: func() int64 { return now }}
	start := func(r role, leader, self int) *Sync {
		k := &Sync{role: r, leader: leader}
		k.Clock.Init(source)
		if r == roleLeader || r == roleFollower {
			k.Clock.Start(clocksync.Correction{Error: 10, Growth: 1e-8})
		}
		k.startAgreement(self, []leaderState{{2, clocksync.Bound{Error: 10, Growth: 1e-8}, 1000}})
		return k
	}
	zero, same := start(roleReference, 0, 0), start(roleNone, 0, 1)
	leader, follower := start(roleLeader, 2, 2), start(roleFollower, 2, 3)
	want := func(when string, agree ...bool) {
		t.Helper()
		for i, k := range []*Sync{zero, same, leader, follower} {
			if k.Agrees() != agree[i] {
				t.Errorf("%s: role %d agrees: %v", when, k.role, !agree[i])
			}
		}
	}
	want("at the start", true, true, true, true)
	now = 100e9 // no corrections for 100 s: the error may be 1010 ns
	want("later", false, true, false, false)
	if w := zero.Ping(2, clocksync.Bound{Error: 600}.Encode(0), 1000); decodeAllowed(w) != 500 || zero.Agrees() {
		t.Errorf("a leader with an error of 600 ns may have %d", decodeAllowed(w))
	}
	if !same.State(0, encodeAllowed(-1)) || same.State(2, 5) || !follower.State(2, encodeAllowed(-1)) || follower.State(0, 5) ||
		leader.State(0, 5) || zero.State(2, 5) {
		t.Error("the state is accepted from a wrong rank, or not from the right one")
	}
	want("after a report", false, false, false, false)
	zero.Ping(2, clocksync.Bound{Error: 20}.Encode(0), 1000)
	leader.Pong(0, 1, 2, 3, encodeAllowed(2000))
	same.State(0, encodeAllowed(1))
	follower.State(2, encodeAllowed(2000))
	want("after a better one", true, true, true, true)
	zero.Ping(7, 1, 1) // is not a leader
	want("after a ping of a rank that is no leader", true, true, true, true)
}
