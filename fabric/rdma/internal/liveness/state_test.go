package liveness

import (
	"testing"
	"time"
)

// TestStateProbes: an idle peer is probed after its number of visits; one with requests that have
// no completion, or whose port may have changed, at the next visit. A sign of life ends the count.
func TestStateProbes(t *testing.T) {
	var k State
	for n := 1; n < 5; n++ {
		if k.Answered() || k.ProbeDue(false, 5) {
			t.Fatalf("visit %d: %+v", n, k)
		}
	}
	if !k.ProbeDue(false, 5) {
		t.Error("the peer is not probed after 5 visits")
	}
	k.Alive = true
	if !k.Answered() || k.Idle != 0 || k.Alive {
		t.Errorf("after a sign of life: %+v", k)
	}
	if !k.ProbeDue(true, 5) {
		t.Error("a request without a completion is not followed by a probe")
	}
	k.Alive, k.Probe = true, true
	if k.Answered() || !k.ProbeDue(false, 5) {
		t.Error("a change of the port is not followed by a probe")
	}
}

// TestStateMissed: a peer that does not answer is down after a heartbeat. If the request that it
// does not answer is behind others, the connection is made again earlier.
func TestStateMissed(t *testing.T) {
	l := NewLimits(15 * time.Second)
	for queued, want := range map[bool]struct {
		after   int
		verdict Verdict
	}{false: {l.MaxMissed, Down}, true: {l.MaxQueued, Break}} {
		var k State
		for n := 1; ; n++ {
			if v := k.Miss(&l, queued); v != Wait {
				if n != want.after || v != want.verdict {
					t.Errorf("queued %v: verdict %v after %d intervals, want %v after %d", queued, v, n, want.verdict, want.after)
				}
				break
			}
		}
	}
}

// TestStateStuck: a request is stuck if it is the oldest one at as many visits as a heartbeat has.
// The queue pair for messages is only stuck if the peer gives signs of life.
func TestStateStuck(t *testing.T) {
	l := NewLimits(15 * time.Second)
	var k State
	var moves, stays, unsupervised Progress
	for n := range uint32(l.MaxMissed + 1) {
		k.Visit()
		if k.Look(&moves, n+1, true) || k.Look(&stays, 7, true) != (n > 0) || k.Look(&unsupervised, 7, false) != (n > 0) {
			t.Fatalf("visit %d: %+v, %+v, %+v", n, moves, stays, unsupervised)
		}
	}
	if int(k.Stuck) != l.MaxMissed || k.Age != int16(l.MaxMissed)+1 {
		t.Errorf("%+v", k)
	}
	if k.IsStuck(&moves, &l, false) || k.IsStuck(&unsupervised, &l, false) || !k.IsStuck(&stays, &l, false) {
		t.Errorf("%+v, %+v, %+v", moves, stays, unsupervised)
	}
	if k.IsStuck(&stays, &l, true) {
		t.Error("the connection of a silent peer is made again")
	}
	k.Alive = true
	if !k.IsStuck(&stays, &l, true) {
		t.Error("a message is not sent again")
	}
	if k.End(&l) || k.Age != 0 {
		t.Errorf("a connection that was stuck all the time has worked: %+v", k)
	}
	k.Age, k.Stuck = int16(l.MaxMissed)+1, 0
	if !k.End(&l) {
		t.Error("a connection has not worked for a heartbeat")
	}
}
