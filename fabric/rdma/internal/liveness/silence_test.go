package liveness

import (
	"testing"
	"time"
)

// TestSilenceAnswers: only the answer to a probe that is later than the last answered one is a sign
// of life.
func TestSilenceAnswers(t *testing.T) {
	for _, c := range []struct {
		probe, answered, got uint32
		alive                bool
	}{
		{5, 3, 5, true}, {5, 3, 4, true}, {5, 3, 3, false}, {5, 3, 6, false}, {5, 5, 5, false}, {2, 0xffffffff, 1, true},
	} {
		s := Silence{Intervals: 7, Probe: c.probe, Answered: c.answered, Waiting: true}
		if s.Answer(c.got); (s.Intervals == 0) != c.alive || s.Waiting == c.alive {
			t.Errorf("%+v: %+v", c, s)
		}
	}
}

// TestLiveness: with every heartbeat, a peer is lost after that time.
func TestLiveness(t *testing.T) {
	for _, c := range []struct{ heartbeat, interval time.Duration }{
		{15 * time.Second, 500 * time.Millisecond}, {time.Second, 100 * time.Millisecond}, {time.Hour, 500 * time.Millisecond},
	} {
		l := NewLimits(c.heartbeat)
		if l.Interval != c.interval || l.Duration(l.MaxMissed) != c.heartbeat || l.MaxQueued >= l.MaxMissed {
			t.Errorf("%v: %+v", c.heartbeat, l)
		}
	}
}

// TestSilenceIntervals: the intervals after the first count in which a probe was tried, unless the
// process is known to exist.
func TestSilenceIntervals(t *testing.T) {
	l := NewLimits(15 * time.Second)
	var s Silence
	now, intervals := time.Duration(0), 0
	for ; !s.TooLong(&l); intervals++ {
		if !s.Due(now) || s.Due(now-1) {
			t.Fatalf("%v: %+v", now, s)
		}
		if s.Miss(false) != (intervals > 0) {
			t.Fatalf("interval %d: %+v", intervals, s)
		}
		before := s.Probe
		if s.Probing(); intervals%2 == 0 { // there is no room at first
			if s.Postponed(now); s.Probe != before || !s.Due(now) || s.Miss(false) {
				t.Fatalf("a probe that was postponed counts: %+v", s)
			}
			s.Probing()
		}
		s.Probed(now, &l, true)
		if s.Probe != before+1 {
			t.Fatalf("probe %d follows probe %d", s.Probe, before)
		}
		now += l.Interval
	}
	if intervals != l.MaxMissed {
		t.Errorf("the peer is down after %d intervals, want %d", intervals, l.MaxMissed)
	}
	s = Silence{}
	s.Probed(0, &l, false)
	if s.Miss(false) {
		t.Error("an interval counts in which nothing was tried")
	}
	s.Probed(0, &l, true)
	if s.Miss(true) || !s.Miss(false) {
		t.Error("an interval counts although the process is known to exist")
	}
}
