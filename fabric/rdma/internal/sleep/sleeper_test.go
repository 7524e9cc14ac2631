//go:build linux

package sleep

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ibrun/ibrun/fabric/rdma/internal/liveness"
	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/verbs"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

// soon is how long a test waits for what must not happen.
const soon = 20 * time.Millisecond

// TestWakeLasts: another goroutine calls Wake while this one arms. The timer that this one then
// sets does not undo the wakeup.
func TestWakeLasts(t *testing.T) {
	var s Sleeper
	if err := s.Open(nil, nil, nil); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, at := range []time.Duration{time.Hour, liveness.Never} {
		if err := errors.Join(s.Wake(), s.Until(0, at)); err != nil {
			t.Fatal(err)
		}
		if !waittest.Readable(t, s.FD(), waittest.Limit) {
			t.Fatalf("the timer was set to %v, and the wakeup is lost", at)
		}
		if err := s.Disarm(); err != nil {
			t.Fatal(err)
		}
		if err := s.Until(0, at); err != nil {
			t.Fatal(err)
		}
		if waittest.Readable(t, s.FD(), soon) {
			t.Fatal("it is readable without a reason")
		}
	}
}

// openRail returns a rail of a simulated device whose completion queues report their next
// completion.
func openRail(t *testing.T, net *verbstest.SimulatedNetwork) Rail {
	t.Helper()
	dev, err := net.Open("a")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	ch, err := dev.CreateChannel()
	if err != nil {
		t.Fatal(err)
	}
	r := Rail{Device: "a", Channel: ch}
	for _, cq := range []**verbs.CQ{&r.Send, &r.Recv} {
		if *cq, err = dev.CreateCQVector(16, ch, 0); err != nil {
			t.Fatal(err)
		}
		if err := (*cq).Notify(false); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// TestRefused: if a device refuses to report completions, the caller wakes soon, tries again, and
// the user is told once, after some refusals.
func TestRefused(t *testing.T) {
	net := verbstest.NewSimulatedNetwork()
	var lines []string
	var s Sleeper
	if err := s.Open([]Rail{openRail(t, net)}, nil, func(text string) { lines = append(lines, text) }); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.rails[0].recv.armed = false // as after an event
	net.RefuseOn(func(_ string, c verbstest.SimulatedCall) error {
		if c == verbstest.CallNotify {
			return syscall.EBUSY
		}
		return nil
	})
	for i := range 2 * MaxRefused {
		s.Begin()
		if err := errors.Join(s.Notify(false), s.Until(0, liveness.Never)); err != nil {
			t.Fatal(err)
		}
		if !waittest.Readable(t, s.FD(), waittest.Limit) {
			t.Fatal("nothing wakes the caller")
		}
		if err := s.Disarm(); err != nil {
			t.Fatal(err)
		}
		if want := i+1 >= MaxRefused; want != (len(lines) == 1) {
			t.Errorf("after %d refusals: %q", i+1, lines)
		}
	}
	if len(lines) != 1 || !strings.Contains(lines[0], "device a") {
		t.Errorf("the user is told %q", lines)
	}
	s.Begin() // as of a domain that is lost, which does not ask again
	if err := s.Until(0, liveness.Never); err != nil || waittest.Readable(t, s.FD(), soon) {
		t.Errorf("the caller is woken without need: %v", err)
	}
	net.RefuseOn(nil)
	s.Begin()
	if err := errors.Join(s.Notify(false), s.Until(0, liveness.Never)); err != nil {
		t.Fatal(err)
	}
	if !s.rails[0].recv.armed || waittest.Readable(t, s.FD(), soon) {
		t.Error("the caller does not sleep although the device reports completions again")
	}
}

// TestReady: the caller must not sleep if there may be more completions, if a Send may be tried
// again, or if nothing reports the completions of sends that the owner waits for.
func TestReady(t *testing.T) {
	var s Sleeper
	if err := s.Open([]Rail{openRail(t, verbstest.NewSimulatedNetwork())}, nil, nil); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ready := func(sends bool) bool {
		got := s.Ready(sends)
		if s.SendBlocked {
			t.Error("SendBlocked is still set")
		}
		return got
	}
	s.Begin()
	if !s.Armed() || ready(false) || ready(true) {
		t.Error("the caller may not sleep although all queues are armed")
	}
	s.rails[0].send.armed = false // as after an event
	if ready(false) || !ready(true) || !s.SendsMissing() {
		t.Error("it is not noticed that completions of sends are not reported")
	}
	if err := s.Notify(true); err != nil || s.SendsMissing() || ready(true) {
		t.Errorf("the completions of sends are not reported: %v", err)
	}
	s.SendBlocked = true
	if ready(false) {
		t.Error("a Send is tried again although nothing was freed")
	}
	s.SendBlocked, s.SendsFreed = true, true
	if !ready(false) {
		t.Error("no Send is tried again")
	}
	s.MoreReady = true
	if !ready(false) {
		t.Error("completions are forgotten")
	}
	if s.Begin(); ready(false) {
		t.Error("the next sleep begins with the state of the last")
	}
}

// TestLost: a device that is lost ends the sleep with what lost returns. A rail that is ignored is
// not asked again.
func TestLost(t *testing.T) {
	net := verbstest.NewSimulatedNetwork()
	var s Sleeper
	gone, fatal := 0, errors.New("the domain is lost")
	var result error
	err := s.Open([]Rail{openRail(t, net)}, func(rail int, err error) error {
		if gone++; rail != 0 || !errors.Is(err, verbs.ErrDeviceLost) {
			t.Errorf("rail %d: %v", rail, err)
		}
		s.Ignore(rail)
		return result
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	net.RefuseOn(func(string, verbstest.SimulatedCall) error { return syscall.EIO })
	s.rails[0].send.armed = false
	result = fatal
	if err := s.Notify(true); err != fatal || gone != 1 {
		t.Errorf("%v after %d losses", err, gone)
	}
	result = nil
	if err := s.Notify(true); err != nil || gone != 1 || s.SendsMissing() {
		t.Errorf("%v after %d losses", err, gone)
	}
}

// TestWakeArmed: a caller that may sleep is woken, any other is not.
func TestWakeArmed(t *testing.T) {
	var s Sleeper
	if err := s.Open(nil, nil, nil); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.WakeArmed(); waittest.Readable(t, s.FD(), soon) {
		t.Error("it wakes a caller that does not sleep")
	}
	s.Begin()
	if s.WakeArmed(); !waittest.Readable(t, s.FD(), waittest.Limit) {
		t.Error("it does not wake a caller that may sleep")
	}
}
