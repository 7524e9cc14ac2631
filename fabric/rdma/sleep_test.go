//go:build linux

package rdma

import (
	"errors"
	"testing"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/liveness"
	"github.com/ibrun/ibrun/fabric/rdma/internal/posting"
	"github.com/ibrun/ibrun/internal/waittest"
)

// armsReady arms a domain and reports whether a caller that sleeps then would wake up immediately.
func armsReady(t *testing.T, d *domain) bool {
	t.Helper()
	fd, ready, err := d.Arm()
	if err != nil {
		t.Fatal(err)
	}
	return ready || readable(t, fd)
}

// mayArm fails if the caller may not sleep although there is no work but that of timers.
func mayArm(t *testing.T, d *domain) {
	t.Helper()
	for range 10 { // if this program is stopped for long, a timer expires
		if !armsReady(t, d) {
			return
		}
		pollTimes(t, d, 1)
	}
	t.Fatal("there is no work, but the caller may not sleep")
}

const wakeTimeout = 20 * time.Millisecond

// readable reports whether a file descriptor is readable, now or within wakeTimeout: a timer that expires immediately takes a
// moment.
func readable(t *testing.T, fd int) bool {
	t.Helper()
	return waittest.Readable(t, fd, wakeTimeout)
}

// pollUntilIdle polls until there is no work left, and ends the keepalive, so that no timer wakes a domain that is armed then.
func pollUntilIdle(t *testing.T, ds ...*domain) {
	t.Helper()
	for range enoughPolls {
		for _, d := range ds {
			pollTimes(t, d, 1)
		}
	}
	for _, d := range ds {
		d.keepalives.At, d.clock.Next = liveness.Never, liveness.Never
	}
}

// TestSimulatedArmAfterEvents: a read ends after a Poll that returned an event. Arm notices it, whatever the number of that
// Poll.
func TestSimulatedArmAfterEvents(t *testing.T) {
	net, ds := openSimulated(t, Settings{Devices: []string{"a"}}, 2)
	a, b := ds[0], ds[1]
	connectPeers(t, a, b)
	src, dst := make([]byte, 64), make([]byte, 64)
	far, err1 := b.Register(src)
	near, err2 := a.Register(dst)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	for poll := range uint(2 * progressEvery) {
		pollUntilIdle(t, a, b)
		for a.clock.Polls%progressEvery != poll%progressEvery {
			pollTimes(t, a, 1)
		}
		if err := b.eps[0].Send([]byte("message"), nil); err != nil {
			t.Fatal(err)
		}
		net.SetPaused(true)
		if _, err := a.eps[1].Read(dst, near, far.Remote, 1); err != nil {
			t.Fatal(err)
		}
		if got := pollTimes(t, a, 1); len(got) != 1 || got[0].Kind != fabric.Message {
			t.Fatalf("%+v", got)
		}
		net.SetPaused(false)
		if !armsReady(t, a) {
			t.Errorf("poll %d: Arm does not report the end of the read", poll)
		}
		if got := pollTimes(t, a, 4); len(got) != 1 || got[0].Kind != fabric.Done {
			t.Fatalf("%+v", got)
		}
	}
}

// TestSimulatedArmBehindMany: there are so many completions that polling the queue once does not take all of them, and the one
// that ends the read is the last.
func TestSimulatedArmBehindMany(t *testing.T) {
	_, ds := openSimulated(t, Settings{Devices: []string{"a"}}, 18)
	a := ds[0]
	for _, b := range ds[1:] {
		connectPeers(t, a, b)
	}
	pollUntilIdle(t, ds...)
	src, dst := make([]byte, 64), make([]byte, 64)
	far, err1 := ds[1].Register(src)
	near, err2 := a.Register(dst)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	for i := range ds[1:] {
		if err := a.eps[i+1].Send([]byte("message"), nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.eps[1].Read(dst, near, far.Remote, 1); err != nil {
		t.Fatal(err)
	}
	if !armsReady(t, a) {
		t.Error("Arm does not report the end of a read behind other completions")
	}
}

// TestSimulatedReadWhileAsleep: another goroutine begins a read while the caller sleeps. The end of the read wakes the caller.
func TestSimulatedReadWhileAsleep(t *testing.T) {
	net, ds := openSimulated(t, Settings{Devices: []string{"a"}}, 2)
	a, b := ds[0], ds[1]
	connectPeers(t, a, b)
	pollUntilIdle(t, a, b)
	src, dst := make([]byte, 64), make([]byte, 64)
	far, err1 := b.Register(src)
	near, err2 := a.Register(dst)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	for range 2 { // arming again changes nothing
		mayArm(t, a)
	}
	net.SetPaused(true)
	if _, err := a.eps[1].Read(dst, near, far.Remote, 1); err != nil {
		t.Fatal(err)
	}
	for readable(t, a.sleeper.FD()) { // the caller is woken, polls, and sleeps again
		if got := pollTimes(t, a, 1); len(got) != 0 {
			t.Fatalf("%+v", got)
		}
		armsReady(t, a)
	}
	net.SetPaused(false)
	if !waittest.Readable(t, a.sleeper.FD(), waittest.Limit) {
		t.Error("the caller is not woken by the end of a read that began while it slept")
	}
}

// TestSimulatedSendBlockedWhenArmed: the Send after Arm is the first that finds no room. The caller is woken when there is
// room.
func TestSimulatedSendBlockedWhenArmed(t *testing.T) {
	net, ds := openSimulated(t, Settings{Devices: []string{"a"}}, 2)
	a, b := ds[0], ds[1]
	connectPeers(t, a, b)
	most := a.rails[0].room.Limit[posting.ShareMessages]
	for int(a.eps[1].msgs.Out.Grant-a.eps[1].msgs.Out.Sent) <= most { // until the queue is the limit, not the credits
		for a.eps[1].Send([]byte("message"), nil) == nil {
		}
		for range enoughPolls {
			pollTimes(t, b, 1)
			pollTimes(t, a, 1)
		}
	}
	pollUntilIdle(t, a, b)
	net.SetPaused(true)
	for a.eps[1].lanes.Queues[0].InFlight() < most {
		if err := a.eps[1].Send([]byte("message"), nil); err != nil {
			t.Fatal(err)
		}
	}
	mayArm(t, a)
	if err := a.eps[1].Send([]byte("message"), nil); err != fabric.ErrAgain {
		t.Fatal(err)
	}
	for readable(t, a.sleeper.FD()) { // the caller is woken, polls, tries again, and sleeps again
		pollTimes(t, a, 1)
		if err := a.eps[1].Send([]byte("message"), nil); err != fabric.ErrAgain {
			t.Fatal(err)
		}
		armsReady(t, a)
	}
	net.SetPaused(false)
	if !waittest.Readable(t, a.sleeper.FD(), waittest.Limit) {
		t.Error("the caller is not woken when there is room")
	}
}
