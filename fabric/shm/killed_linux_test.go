package shm

import (
	"crypto/rand"
	"errors"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
)

// openBeside opens peer 0 of two in this process. The other one is a process with this role.
func openBeside(t *testing.T, role string) (*Domain, *exec.Cmd) {
	t.Helper()
	checkLeftovers(t)
	key := rand.Text()
	c := peerProcess(t, role, 1, 2, key, nil)
	tr := &Transport{Local: []int{0, 1}}
	copy(tr.Key[:], key)
	d, err := tr.Open(t.Context(), &fabric.Config{Self: 0, Size: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d.(*Domain), c
}

// kill kills a process, and returns when it has exited.
func kill(t *testing.T, c *exec.Cmd) {
	t.Helper()
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err == nil {
		t.Error("the peer has exited by itself")
	}
}

// awaitOpened waits until the other peer has opened its domain.
func awaitOpened(d *Domain) {
	for atomic.LoadUint32(&d.controls[1].opened) == 0 {
		runtime.Gosched()
	}
}

// checkKilled fails the test unless the event is that peer 1 was killed, and its endpoint says so.
func checkKilled(t *testing.T, d *Domain, ev fabric.Event, err error) {
	t.Helper()
	if err != nil || ev.Kind != fabric.PeerDown || ev.Peer != 1 || !errors.Is(ev.Err, fabric.ErrPeerDown) ||
		errors.Is(ev.Err, fabric.ErrPeerClosed) {
		t.Fatalf("%+v, %v", ev, err)
	}
	if err := connect(t, d, 1).Send([]byte{1}, nil); !errors.Is(err, fabric.ErrPeerDown) {
		t.Errorf("send to a peer that was killed: %v", err)
	}
	var evs [4]fabric.Event
	if n, err := d.Poll(evs[:]); n != 0 || err != nil {
		t.Errorf("further events: %+v, %v", evs[:n], err)
	}
}

// TestKilledIdle: a peer that is killed is reported, also without a connection.
func TestKilledIdle(t *testing.T) {
	for name, connected := range map[string]bool{"connected": true, "unconnected": false} {
		t.Run(name, func(t *testing.T) {
			d, c := openBeside(t, roleIdle)
			awaitOpened(d)
			if connected {
				connect(t, d, 1)
			}
			kill(t, c)
			ev, err := next(d)
			checkKilled(t, d, ev, err)
		})
	}
}

// TestKilledBeforeOpen: a peer whose process has ended before it has opened its domain is reported to the one that connects.
func TestKilledBeforeOpen(t *testing.T) {
	ds := openAll(t, node(2))
	atomic.StoreUint32(&ds[1].self.opened, 0)
	if err := errors.Join(unix.Close(ds[1].sock.fd), reopen(ds[1])); err != nil {
		t.Fatal(err)
	}
	for !ds[0].hasEnded(1) {
		runtime.Gosched()
	}
	var evs [4]fabric.Event
	if n, err := ds[0].Poll(evs[:]); n != 0 || err != nil {
		t.Errorf("before connecting: %+v, %v", evs[:n], err)
	}
	e := connect(t, ds[0], 1)
	ev, err := next(ds[0])
	if err != nil || ev.Kind != fabric.PeerDown || errors.Is(ev.Err, fabric.ErrPeerClosed) {
		t.Errorf("%+v, %v", ev, err)
	}
	if err := e.Send([]byte{1}, nil); !errors.Is(err, fabric.ErrPeerDown) {
		t.Error(err)
	}
}

// reopen gives a domain whose socket was closed another descriptor, so that it can be closed.
func reopen(d *Domain) (err error) {
	d.sock.fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	return err
}

// TestKilledLastMessages: what a peer had sent is delivered before the event that says that it was killed.
func TestKilledLastMessages(t *testing.T) {
	d, c := openBeside(t, roleConnected)
	for atomic.LoadUint64(&d.controls[0].connectedFrom[0])&2 == 0 {
		runtime.Gosched()
	}
	ev, err := next(d)
	if err != nil || ev.Kind != fabric.Message || ev.Data[0] != 1 {
		t.Fatalf("%+v, %v", ev, err)
	}
	kill(t, c)
	ev, err = next(d)
	checkKilled(t, d, ev, err)
}

// TestKilledUnread is TestKilledLastMessages for messages that arrived before the peer was killed and were not read.
func TestKilledUnread(t *testing.T) {
	d, c := openBeside(t, roleFlood)
	e := connect(t, d, 1)
	for d.inbounds.from[1] == nil || !d.inbounds.from[1].r.Ready() { // without reading
		d.checkChanges()
	}
	kill(t, c)
	for !d.hasEnded(1) {
		runtime.Gosched()
	}
	messages := 0
	ev, err := next(d)
	for ; err == nil && ev.Kind == fabric.Message && len(ev.Data) == 700; ev, err = next(d) {
		messages++
	}
	if messages == 0 || messages > 2*smallSpace/700 {
		t.Errorf("%d messages before the event", messages)
	}
	checkKilled(t, d, ev, err)
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// TestKilledAsleep: a peer that sleeps is woken when another one is killed, also if it has not connected.
func TestKilledAsleep(t *testing.T) {
	for name, connected := range map[string]bool{"connected": true, "unconnected": false} {
		t.Run(name, func(t *testing.T) {
			d, c := openBeside(t, roleIdle)
			awaitOpened(d)
			if connected {
				connect(t, d, 1)
			}
			fd, ready, err := d.Arm()
			if ready || err != nil {
				t.Fatal(ready, err)
			}
			kill(t, c)
			// Without a limit: if nothing wakes it, the test ends by its own deadline.
			for {
				if _, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1); err != unix.EINTR {
					break
				}
			}
			var evs [1]fabric.Event
			n, err := d.Poll(evs[:])
			if n != 1 {
				t.Fatalf("woken without an event: %v", err)
			}
			checkKilled(t, d, evs[0], err)
		})
	}
}

// TestClosedUnconnected: a peer that closes in order is reported to those that connect later, as closed.
func TestClosedUnconnected(t *testing.T) {
	ds := openAll(t, node(2))
	if err := ds[1].Close(); err != nil {
		t.Fatal(err)
	}
	for !ds[0].hasEnded(1) {
		runtime.Gosched()
	}
	var evs [2]fabric.Event
	if n, err := ds[0].Poll(evs[:]); n != 0 || err != nil {
		t.Errorf("before connecting: %+v, %v", evs[:n], err)
	}
	connect(t, ds[0], 1)
	if ev, err := next(ds[0]); err != nil || ev.Kind != fabric.PeerDown || !errors.Is(ev.Err, fabric.ErrPeerClosed) {
		t.Errorf("%+v, %v", ev, err)
	}
}

// TestCloseAfterMessage: peers that connect, send and close immediately are reported as closed after their message, however a
// Poll meets these steps.
func TestCloseAfterMessage(t *testing.T) {
	const peers = 8
	for range 20 {
		ds := openAll(t, node(peers))
		for i := range peers - 1 {
			connect(t, ds[0], i+1)
		}
		var all sync.WaitGroup
		for _, d := range ds[1:] {
			all.Go(func() {
				e, err := d.Connect(0, nil)
				if err != nil {
					t.Error(err)
					return
				}
				for e.Send([]byte{1}, nil) == fabric.ErrAgain {
					runtime.Gosched()
				}
				d.Close()
			})
		}
		var got [peers]bool
		for down := 0; down < peers-1; {
			ev, err := next(ds[0])
			if err != nil {
				t.Fatal(err)
			}
			if ev.Kind == fabric.Message {
				got[ev.Peer] = true
			} else if down++; !got[ev.Peer] {
				t.Errorf("peer %d is down before its message: %v", ev.Peer, ev.Err)
			}
		}
		all.Wait()
		ds[0].Close()
	}
}
