//go:build linux

package rdma

import (
	"errors"
	"syscall"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

// refuseTimes makes the next calls of a kind fail, and returns how many of them have. Only the test's goroutine may
// make such calls.
func refuseTimes(net *verbstest.SimulatedNetwork, kind verbstest.SimulatedCall, times int, errno syscall.Errno) *int {
	refused := new(int)
	net.Refuse(func(c verbstest.SimulatedCall) error {
		if c != kind || *refused == times {
			return nil
		}
		*refused++
		return errno
	})
	return refused
}

// TestSimulatedRefusedForAWhile: a device that has no room for a connection is asked again, on whichever side it is. No message
// is lost, and no peer.
func TestSimulatedRefusedForAWhile(t *testing.T) {
	for _, c := range []struct {
		call  verbstest.SimulatedCall
		times int
		errno syscall.Errno
	}{
		{verbstest.CallCreateQP, 1, syscall.ENOMEM}, {verbstest.CallCreateQP, 3, syscall.EAGAIN},
		{verbstest.CallModifyQP, 1, syscall.ENOMEM}, // to INIT
		{verbstest.CallModifyQP, 2, syscall.EINVAL}, {verbstest.CallRegMR, 2, syscall.ENOMEM},
	} {
		net, ds := openSimulated(t, Settings{Devices: []string{"a"}}, 2)
		refused := refuseTimes(net, c.call, c.times, c.errno)
		connectPeers(t, ds[0], ds[1])
		connectPeers(t, ds[1], ds[0])
		if *refused != c.times {
			t.Errorf("%v was refused %d times, want %d", c.call, *refused, c.times)
		}
		for i, d := range ds {
			if e := d.eps[1-i]; e.retry.refusal.err != nil || d.recvs.reserved != int(e.in.window)+1 || e.retry.breaks > 0 {
				t.Errorf("%v: peer %d: %+v, %d slots are reserved", c.call, i, e.retry, d.recvs.reserved)
			}
		}
	}
}

// TestSimulatedRejected: only the side that accepts is refused. The other one knows it by a REJ.
func TestSimulatedRejected(t *testing.T) {
	net, ds := openSimulated(t, Settings{Devices: []string{"a"}}, 2)
	for ds[0].eps[1].Send([]byte("message"), nil) != fabric.ErrAgain {
	}
	pollTimes(t, ds[0], progressEvery) // the REQ
	if ds[0].eps[1].conn.state != stateREQSent {
		t.Fatalf("state %d", ds[0].eps[1].conn.state)
	}
	refuseTimes(net, verbstest.CallCreateQP, 1, syscall.ENOMEM)
	pollTimes(t, ds[1], progressEvery)
	pollTimes(t, ds[0], progressEvery)
	if err := ds[0].eps[1].retry.refusal.err; !errors.Is(err, syscall.ENOMEM) || !errors.Is(err, fabric.ErrNotSupported) {
		t.Errorf("%v", err)
	}
	connectPeers(t, ds[0], ds[1])
	if err := ds[0].eps[1].retry.refusal.err; err != nil {
		t.Error(err)
	}
}

// TestSimulatedRefusedForGood: a connection that is refused for as long as the heartbeat is given up, with the reason.
func TestSimulatedRefusedForGood(t *testing.T) {
	for poor := range 2 {
		net := verbstest.NewSimulatedNetwork()
		net.SetDevice("poor0", func(d *verbstest.SimulatedDevice) { d.Attr.MaxQP = 3 })
		devices := []string{"rich0", "rich0"}
		devices[poor] = "poor0"
		ds := openEach(t, net, devices...)
		r := ds[poor].rails[0]
		if _, err := r.createQueuePair(&r.partitions[0], true); err != nil { // the last one
			t.Fatal(err)
		}
		if err := ds[0].eps[1].Send([]byte("message"), nil); err != fabric.ErrAgain {
			t.Fatal(err)
		}
		refusal := &ds[0].eps[1].retry.refusal
		pollBoth(t, ds, "the connection is refused", func() bool { return refusal.err != nil })
		refusal.since -= ds[0].settings.Heartbeat
		var got []fabric.Event
		waittest.Poll(t, "the connection is given up", func() bool {
			got = pollTimes(t, ds[0], 1)
			pollTimes(t, ds[1], 1)
			return len(got) > 0
		})
		if len(got) != 1 || got[0].Kind != fabric.PeerDown {
			t.Fatalf("device %d: %+v", poor, got)
		}
		for _, want := range []error{fabric.ErrPeerDown, fabric.ErrNotSupported, syscall.ENOMEM} {
			if !errors.Is(got[0].Err, want) {
				t.Errorf("device %d: %v is not %v", poor, got[0].Err, want)
			}
		}
	}
}
