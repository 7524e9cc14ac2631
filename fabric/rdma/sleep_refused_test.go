//go:build linux

package rdma

import (
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/sleep"
	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

// refuseNotify makes a network refuse to report completions after so many calls.
func refuseNotify(net *verbstest.SimulatedNetwork, granted int32, errno syscall.Errno) {
	var calls atomic.Int32
	net.RefuseOn(func(_ string, c verbstest.SimulatedCall) error {
		if c == verbstest.CallNotify && calls.Add(1) > granted {
			return errno
		}
		return nil
	})
}

// TestSimulatedBlindDevice: a device that refuses to report completions is not opened, whichever of its queues it refuses.
func TestSimulatedBlindDevice(t *testing.T) {
	const queues = 3 // of sends, of receives, and of probes
	for granted := range int32(queues) {
		net := verbstest.NewSimulatedNetwork()
		refuseNotify(net, granted, syscall.EINVAL)
		d, err := (&Transport{Settings: Settings{Devices: []string{"a"}}, Network: net.Node()}).Open(t.Context(),
			&fabric.Config{Self: 0, Size: 2})
		var refused *DeviceError
		if !errors.As(err, &refused) || refused.Device != "a" || !errors.Is(err, syscall.EINVAL) ||
			!strings.Contains(err.Error(), "ibv_req_notify_cq") {
			t.Errorf("%d calls succeeded: %v, %v", granted, d, err)
		}
	}
}

// TestSimulatedBlindLater: a device refuses to report completions after it was opened. A process that waits looks for messages
// itself, receives them, and says so in one line if it goes on. Once the device reports completions again, the process sleeps.
func TestSimulatedBlindLater(t *testing.T) {
	net := verbstest.NewSimulatedNetwork()
	set := Settings{Devices: []string{"a"}}
	var lines []string
	ds := openTransports(t, []*Transport{{Settings: set, Network: net.Node()},
		{Settings: set, Network: net.Node(), Report: func(text string) { lines = append(lines, text) }}})
	a, b := ds[0], ds[1]
	connectPeers(t, a, b)
	connectPeers(t, b, a)
	fd, _, err := b.Arm() // after a message the queue of receives is to be armed again
	if err != nil {
		t.Fatal(err)
	}
	send(t, a, b)
	waittest.Until(t, "the message ends the sleep", func() bool { return readable(t, fd) })
	if got := pollTimes(t, b, 1); len(got) != 1 {
		t.Fatalf("got %+v", got)
	}
	pollTimes(t, a, 1) // so that the doorbell of the next message is rung at once
	refuseNotify(net, 0, syscall.EBUSY)
	for i := range 2 * sleep.MaxRefused {
		fd, _, err := b.Arm()
		if err != nil {
			t.Fatal(err)
		}
		if !readable(t, fd) {
			t.Fatal("the process sleeps although nothing wakes it")
		}
		if n := len(pollTimes(t, b, 1)); n > 0 {
			t.Errorf("%d events", n)
		}
		if want := i+1 >= sleep.MaxRefused; want != (len(lines) == 1) {
			t.Errorf("after %d refusals: %q", i+1, lines)
		}
	}
	if len(lines) != 1 || !strings.Contains(lines[0], "device a") || !strings.Contains(lines[0], "ibv_req_notify_cq") {
		t.Errorf("reported: %q", lines)
	}
	net.RefuseOn(nil)
	mayArm(t, b)
	send(t, a, b)
	if fd, ready, err := b.Arm(); err != nil || !ready && !readable(t, fd) {
		t.Errorf("a message does not wake the process: %v", err)
	}
}
