package liveness

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/ibrun/ibrun/verbs"
)

var errBroken = errors.New("broken")

// TestSeriesEnds: a series ends when everything that was unfinished is carried out, and a request
// as long as the lost one is.
func TestSeriesEnds(t *testing.T) {
	begin := func() *Series {
		s := new(Series)
		s.Fail(errBroken, 0, 0)
		s.CountPacket(4096)
		s.Unfinished = Unfinished{Seq: 7, Message: true, Transfer: true, Receive: true}
		return s
	}
	steps := []struct {
		name string
		do   func(s *Series)
	}{
		{"the message", func(s *Series) { s.MessageAcknowledged(7) }},
		{"the transfer", func(s *Series) { s.TransferProgressed() }},
		{"the receive", (*Series).Arrived},
		{"a long request", func(s *Series) { s.RequestAcknowledged(4096) }},
	}
	for without := range steps {
		s := begin()
		for i, step := range steps {
			if i != without {
				step.do(s)
				s.RequestAcknowledged(16)
			}
		}
		if s.Failed != 1 || s.Failure() != errBroken {
			t.Errorf("without %s the series has ended: %+v", steps[without].name, s)
		}
		steps[without].do(s)
		if s.RequestAcknowledged(16); s.Failed != 0 || s.Failure() != nil {
			t.Errorf("%s was the last step, and the series goes on: %+v", steps[without].name, s)
		}
	}
	s := begin()
	if s.MessageAcknowledged(6); !s.Unfinished.Message {
		t.Error("an earlier message ends what is unfinished")
	}
	if s.KeepaliveAcknowledged(); s.Failed == 0 {
		t.Error("a keepalive ends a series in which a receive has failed")
	}
	s.Arrived()
	if s.KeepaliveAcknowledged(); s.Failed != 0 {
		t.Error("a keepalive does not end a series")
	}
}

// TestSeriesLasts: the time of a series counts from when the first request was posted that got
// stuck.
func TestSeriesLasts(t *testing.T) {
	var s Series
	for i, c := range []struct{ ran, stuck, want time.Duration }{
		{10 * time.Second, 3 * time.Second, 3 * time.Second}, {11 * time.Second, 3 * time.Second, 4 * time.Second},
	} {
		if got := s.Fail(errBroken, c.ran, c.stuck); got != c.want || int(s.Failed) != i+1 {
			t.Errorf("failure %d: the series lasts %v, want %v: %+v", i, got, c.want, s)
		}
	}
	if s.Failed = math.MaxInt16; s.Fail(errBroken, 0, 0) > 0 || s.Failed != math.MaxInt16 {
		t.Errorf("after very many failures: %+v", s)
	}
}

// TestLosesLarge: packets become smaller if long ones were lost, after several failures or a part
// of the heartbeat.
func TestLosesLarge(t *testing.T) {
	const heartbeat = 15 * time.Second
	lossy := fmt.Errorf("queue pair 1: %w", verbs.StatusRetryExceeded)
	for _, c := range []struct {
		why      error
		lost     uint32
		failures int
		lasts    time.Duration
		want     bool
	}{
		{lossy, 4096, MaxLargeLost, 0, true}, {lossy, 4096, 1, heartbeat / MTUShare, true},
		{lossy, 4096, MaxLargeLost - 1, heartbeat/MTUShare - 1, false}, {lossy, 1024, MaxLargeLost, 0, false},
		{lossy, 0, MaxLargeLost, 0, false}, {errBroken, 4096, MaxLargeLost, heartbeat, false},
	} {
		var s Series
		for range c.failures {
			s.Fail(c.why, 0, 0)
		}
		s.CountPacket(c.lost)
		s.CountPacket(max(c.lost, 4096)) // the shortest counts
		if s.CountPacket(0); c.lost == 0 {
			s.Lost = 0
		}
		if got := s.LosesLarge(1024, c.lasts, heartbeat); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestRetryPause: pauses grow, and attempts are given up sooner the longer they take.
func TestRetryPause(t *testing.T) {
	for failures, want := range map[int16]time.Duration{
		-1: 0, 0: 0, 1: minRetryPause, 2: 2 * minRetryPause, MaxFailures - 1: maxRetryPause,
		MaxFailures: lateRetryPause, math.MaxInt16: lateRetryPause,
	} {
		if got := RetryPause(failures); got != want {
			t.Errorf("after %d failures: %v, want %v", failures, got, want)
		}
	}
	for _, c := range []struct {
		failures int16
		since    time.Duration
		want     bool
	}{
		{MaxFailures, 0, true}, {MaxFailures - 1, MaxSeries - 1, false}, {MinFailures, MaxSeries, true},
		{MinFailures - 1, time.Hour, false},
	} {
		if got := LastsTooLong(c.failures, c.since); got != c.want {
			t.Errorf("%d failures in %v: %v", c.failures, c.since, got)
		}
	}
}
