package liveness

import (
	"testing"
	"time"
)

// TestSilenceAnswers: only the answer to a probe that is later than the last answered one is a sign of life.
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
