//go:build linux

package rdma

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
)

// armed arms a domain and tells whether who sleeps then would wake.
func armed(t *testing.T, d *domain) bool {
	t.Helper()
	fd, ready, err := d.Arm()
	if err != nil {
		t.Fatal(err)
	}
	return ready || readable(t, fd)
}

const soon = 20 * time.Millisecond

// readable tells whether a descriptor is, now or soon: a clock that is to ring at once takes a moment.
func readable(t *testing.T, fd int) bool {
	t.Helper()
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(soon.Milliseconds()))
	if err != nil && !errors.Is(err, unix.EINTR) {
		t.Fatal(err)
	}
	return n == 1
}

// rested polls until nothing is left to do, so that a domain that is armed has no reason not to sleep for half a second.
func rested(t *testing.T, ds ...*domain) {
	t.Helper()
	for range enough {
		for _, d := range ds {
			polls(t, d, 1)
		}
	}
	for _, d := range ds {
		for d.clock.next != never && d.clock.next-time.Since(d.clock.start) < 10*soon { // not long before hearts beat
			polls(t, d, 1)
		}
	}
}

// TestPlayedArmAfterEvents: a read ends after a Poll that told something. Arming sees it, in whichever turn.
func TestPlayedArmAfterEvents(t *testing.T) {
	net, ds := openPlayed(t, Settings{Devices: []string{"a"}}, 2)
	a, b := ds[0], ds[1]
	meet(t, a, b)
	src, dst := make([]byte, 64), make([]byte, 64)
	far, err1 := b.Register(src)
	near, err2 := a.Register(dst)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	for turn := range uint(2 * progressEvery) {
		rested(t, a, b)
		for a.clock.polls%progressEvery != turn%progressEvery {
			polls(t, a, 1)
		}
		if err := b.eps[0].Send([]byte("message"), nil); err != nil {
			t.Fatal(err)
		}
		net.Hold(true)
		if _, err := a.eps[1].Read(dst, near, far.Remote, 1); err != nil {
			t.Fatal(err)
		}
		if got := polls(t, a, 1); len(got) != 1 || got[0].Kind != fabric.Message {
			t.Fatalf("%+v", got)
		}
		net.Hold(false)
		if !armed(t, a) {
			t.Errorf("turn %d: who has armed is not told of the read's end", turn)
		}
		if got := polls(t, a, 4); len(got) != 1 || got[0].Kind != fabric.Done {
			t.Fatalf("%+v", got)
		}
	}
}

// TestPlayedArmBehindMany: so much was done that one look does not take it all, and what is to be told is last.
func TestPlayedArmBehindMany(t *testing.T) {
	_, ds := openPlayed(t, Settings{Devices: []string{"a"}}, 18)
	a := ds[0]
	for _, b := range ds[1:] {
		meet(t, a, b)
	}
	rested(t, ds...)
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
	if !armed(t, a) {
		t.Error("who has armed is not told of a read's end behind other completions")
	}
}

// TestPlayedReadWhileAsleep: a read is begun by another goroutine than the one that sleeps, which is woken for its end.
func TestPlayedReadWhileAsleep(t *testing.T) {
	net, ds := openPlayed(t, Settings{Devices: []string{"a"}}, 2)
	a, b := ds[0], ds[1]
	meet(t, a, b)
	rested(t, a, b)
	src, dst := make([]byte, 64), make([]byte, 64)
	far, err1 := b.Register(src)
	near, err2 := a.Register(dst)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	for range 2 { // once more changes nothing
		if armed(t, a) {
			t.Fatal("there is nothing to do, and nobody may sleep")
		}
	}
	net.Hold(true)
	if _, err := a.eps[1].Read(dst, near, far.Remote, 1); err != nil {
		t.Fatal(err)
	}
	for readable(t, a.waker.epfd) { // whoever sleeps is woken, looks, and sleeps again
		if got := polls(t, a, 1); len(got) != 0 {
			t.Fatalf("%+v", got)
		}
		armed(t, a)
	}
	net.Hold(false)
	if !readable(t, a.waker.epfd) {
		t.Error("who sleeps is not told of the end of a read that began meanwhile")
	}
}

// TestPlayedChokedWhenArmed: the try after Arm is the first that finds no room. Who sleeps is woken when there is.
func TestPlayedChokedWhenArmed(t *testing.T) {
	net, ds := openPlayed(t, Settings{Devices: []string{"a"}}, 2)
	a, b := ds[0], ds[1]
	meet(t, a, b)
	for a.eps[1].out.grant-a.eps[1].out.sent <= maxMessages { // until the queue is what is short
		for a.eps[1].Send([]byte("message"), nil) == nil {
		}
		for range enough {
			polls(t, b, 1)
			polls(t, a, 1)
		}
	}
	rested(t, a, b)
	net.Hold(true)
	for a.eps[1].qps[0].inFlight() < maxMessages {
		if err := a.eps[1].Send([]byte("message"), nil); err != nil {
			t.Fatal(err)
		}
	}
	if armed(t, a) {
		t.Fatal("there is nothing to do, and nobody may sleep")
	}
	if err := a.eps[1].Send([]byte("message"), nil); err != fabric.ErrAgain {
		t.Fatal(err)
	}
	for readable(t, a.waker.epfd) { // whoever sleeps is woken, looks, tries, and sleeps again
		polls(t, a, 1)
		if err := a.eps[1].Send([]byte("message"), nil); err != fabric.ErrAgain {
			t.Fatal(err)
		}
		armed(t, a)
	}
	net.Hold(false)
	if !readable(t, a.waker.epfd) {
		t.Error("who sleeps is not told that there is room")
	}
}

// TestSleeperWakeLasts: another goroutine wakes while this one is arming. What it then sets the clock to does not undo it.
func TestSleeperWakeLasts(t *testing.T) {
	s, err := newWaker(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	for _, at := range []time.Duration{time.Hour, never} {
		if err := errors.Join(s.wake(), s.setTimer(0, at)); err != nil {
			t.Fatal(err)
		}
		if !readable(t, s.epfd) {
			t.Fatalf("the clock was set to %v, and the wake-up is lost", at)
		}
		if err := s.drain(&domain{}); err != nil {
			t.Fatal(err)
		}
		if err := s.setTimer(0, at); err != nil {
			t.Fatal(err)
		}
		if readable(t, s.epfd) {
			t.Fatal("it wakes for nothing")
		}
	}
}
