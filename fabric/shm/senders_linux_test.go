package shm

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/fabrictest"
	"github.com/ibrun/ibrun/internal/wakesock"
)

// launcher hands out sockets as the agent of ibrun does: each answer comes from another goroutine.
type launcher struct {
	node    *wakesock.Node
	answers sync.WaitGroup
	refuse  func(to int) bool // whether a request fails, as if the process had no descriptor left
	wakes   func(to int)      // may be nil
}

func newLauncher(tb testing.TB, n int) *launcher {
	tb.Helper()
	node, err := wakesock.New(n)
	if err != nil {
		tb.Fatal(err)
	}
	l := &launcher{node: node, refuse: func(int) bool { return false }}
	tb.Cleanup(func() {
		l.answers.Wait()
		node.Close()
	})
	return l
}

// nodeSockets are the Sockets of one process.
type nodeSockets struct {
	l    *launcher
	self int
}

func dup(fd int) (int, error) { return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0) }

func (s nodeSockets) Own(context.Context) (receive, send, ended int, err error) {
	ends := s.l.node.Ends(s.self)
	var errs [3]error
	receive, errs[0] = dup(ends.Receive)
	send, errs[1] = dup(ends.Send)
	ended, errs[2] = dup(ends.Ended)
	s.l.node.Handed(s.self)
	return receive, send, ended, errors.Join(errs[:]...)
}

func (s nodeSockets) Request(to int, deliver func(int, error)) error {
	s.l.answers.Go(func() {
		if s.l.refuse(to) {
			deliver(noFD, unix.EMFILE)
			return
		}
		deliver(dup(s.l.node.Send(to)))
	})
	return nil
}

func (s nodeSockets) Wake(to int) {
	sendWake(s.l.node.Send(to))
	if s.l.wakes != nil {
		s.l.wakes(to)
	}
}

// transports returns the transports of n peers of this launcher.
func (l *launcher) transports(n int) []fabric.Transport {
	all := make([]fabric.Transport, n)
	for i := range all {
		tr := node(n)
		tr.Sockets = nodeSockets{l, i}
		all[i] = tr
	}
	return all
}

// TestConformanceSockets runs the suite with sockets of a launcher.
func TestConformanceSockets(t *testing.T) {
	fabrictest.Run(t, func(tb testing.TB, n int) []fabric.Transport { return newLauncher(tb, n).transports(n) })
}

// TestWakeWithoutSocket: a process that has no descriptor left for a peer's socket has the launcher wake that peer.
func TestWakeWithoutSocket(t *testing.T) {
	checkLeftovers(t)
	l := newLauncher(t, 2)
	ds := openEach(t, l.transports(2))
	woken := make(chan int, 10)
	l.refuse, l.wakes = func(int) bool { return true }, func(to int) { woken <- to }
	e := connect(t, ds[0], 1)
	for i := range 3 {
		fd, ready, err := ds[1].Arm()
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Send([]byte{byte(i)}, nil); err != nil {
			t.Fatal(err)
		}
		if !ready { // otherwise Arm has found the connection
			if to := <-woken; to != 1 {
				t.Errorf("peer %d was woken", to)
			}
			if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1); n != 1 {
				t.Errorf("%d descriptors are readable, %v", n, err)
			}
		}
		if ev, err := next(ds[1]); err != nil || ev.Kind != fabric.Message || ev.Data[0] != byte(i) {
			t.Fatalf("%+v, %v", ev, err)
		}
	}
	l.answers.Wait()
	if _, err := ds[0].Segment(5, []int{0, 1}, 4096); !errors.Is(err, unix.EMFILE) {
		t.Errorf("pass a segment: %v", err)
	}
}

// TestCloseWakesWithoutSocket: a domain that closes wakes a peer whose socket has not arrived. It has cleared the peer's flag, so
// no other peer would.
func TestCloseWakesWithoutSocket(t *testing.T) {
	checkLeftovers(t)
	l := newLauncher(t, 2)
	ds := openEach(t, l.transports(2))
	wait, woken := make(chan struct{}), make(chan int, 10)
	t.Cleanup(func() { close(wait) })
	l.refuse = func(int) bool {
		<-wait
		return false
	}
	l.wakes = func(to int) { woken <- to }
	connect(t, ds[0], 1)
	fd := armed(t, ds[1])
	if err := ds[0].Close(); err != nil {
		t.Error(err)
	}
	select {
	case to := <-woken:
		if to != 1 {
			t.Errorf("peer %d was woken", to)
		}
	default:
		t.Error("the launcher was not asked to wake the peer")
	}
	wantReadable(t, fd)
	if ev, err := next(ds[1]); err != nil || ev.Kind != fabric.PeerDown {
		t.Errorf("%+v, %v", ev, err)
	}
}

// TestWokenByEnd: the end of a process wakes a peer that sleeps, also if that process was killed after it had cleared the peer's
// flag and before it had sent the message.
func TestWokenByEnd(t *testing.T) {
	checkLeftovers(t)
	ds := openEach(t, newLauncher(t, 2).transports(2))
	connect(t, ds[0], 1)
	fd := armed(t, ds[1])
	atomic.AndUint32(&ds[1].self.flags, ^uint32(asleep))
	ds[1].peerEnded(0)
	wantReadable(t, fd)
	if ev, err := next(ds[1]); err != nil || ev.Kind != fabric.PeerDown || !errors.Is(ev.Err, fabric.ErrPeerDown) {
		t.Errorf("%+v, %v", ev, err)
	}
}

// armed polls a domain until nothing is to do, arms it, and returns its descriptor.
func armed(t *testing.T, d *Domain) int {
	t.Helper()
	for {
		fd, ready, err := d.Arm()
		if err != nil {
			t.Fatal(err)
		}
		if !ready {
			return fd
		}
		if n, err := d.Poll(make([]fabric.Event, 1)); n != 0 || err != nil {
			t.Fatalf("%d events, %v", n, err)
		}
	}
}

// wantReadable fails the test unless a descriptor is readable.
func wantReadable(t *testing.T, fd int) {
	t.Helper()
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0); n != 1 {
		t.Fatalf("%d descriptors are readable, %v", n, err)
	}
}

// TestCloseBeforeDelivery: a socket that arrives after the domain was closed is closed.
func TestCloseBeforeDelivery(t *testing.T) {
	checkLeftovers(t)
	l := newLauncher(t, 2)
	ds := openEach(t, l.transports(2))
	wait := make(chan struct{})
	l.refuse = func(int) bool {
		<-wait
		return false
	}
	connect(t, ds[0], 1)
	if err := ds[0].Close(); err != nil {
		t.Error(err)
	}
	close(wait)
	l.answers.Wait()
}

// TestFirstEnded: a peer does not wait for a first peer whose process has ended, and the first one not for others.
func TestFirstEnded(t *testing.T) {
	checkLeftovers(t)
	l := newLauncher(t, 3)
	l.node.Handed(2) // its process has ended
	all := l.transports(3)
	d, err := all[0].Open(t.Context(), &fabric.Config{Self: 0, Size: 3})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	l = newLauncher(t, 3)
	l.node.Handed(0)
	if d, err := l.transports(3)[1].Open(t.Context(), &fabric.Config{Self: 1, Size: 3}); d != nil || !errors.Is(err, errFirstEnded) {
		t.Errorf("%v, %v", d, err)
	}
}
