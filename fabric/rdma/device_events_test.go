//go:build linux

package rdma

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/datagrams"
	"github.com/ibrun/ibrun/fabric/rdma/internal/liveness"
	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/verbs"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

// TestSimulatedDeviceLost: the device of a peer is removed. Its Poll reports all other peers as lost, names the device, and
// returns no error. Messages to the process itself still arrive. The others lose only that peer.
func TestSimulatedDeviceLost(t *testing.T) {
	for _, asleep := range []bool{false, true} {
		net := verbstest.NewSimulatedNetwork()
		ds := openEach(t, net, "gone", "b", "c")
		closeAtOnce(ds)
		connectPeers(t, ds[0], ds[1])
		connectPeers(t, ds[0], ds[2])
		connectPeers(t, ds[1], ds[2])
		self, err := ds[0].Connect(0, ds[0].Addr())
		if err != nil {
			t.Fatal(err)
		}
		if asleep {
			pollTimes(t, ds[0], enoughPolls)
			armsReady(t, ds[0])
		}
		net.RemoveDevice("gone")
		if asleep {
			waittest.Until(t, "the sleep ends", func() bool { return readable(t, ds[0].sleeper.FD()) })
		}
		checkDeviceLost(t, ds[0], "gone", 2)
		if err := self.Send([]byte("to itself"), nil); err != nil {
			t.Error(err)
		}
		if got := pollTimes(t, ds[0], 2); len(got) != 1 || got[0].Kind != fabric.Message {
			t.Errorf("a message to the process itself: %+v", got)
		}
		if _, ready, err := ds[0].Arm(); ready || err != nil {
			t.Errorf("Arm without a device: %v, %v", ready, err)
		}
		pollUntilDown(t, ds[1])
		connectPeers(t, ds[2], ds[1])
	}
}

// TestSimulatedDeviceLostElsewhere: a peer that was asked about, but is not reached by the lost device, is not lost with it.
func TestSimulatedDeviceLostElsewhere(t *testing.T) {
	net := verbstest.NewSimulatedNetwork()
	d := openOne(t, net, Settings{Devices: []string{"gone"}})
	if !d.takeover.Hold(1, true) || !d.takeover.Hold(1, false) {
		t.Fatal("the peer is connected")
	}
	net.RemoveDevice("gone")
	waittest.Poll(t, "the device is lost", func() bool {
		if got := pollTimes(t, d, 1); len(got) > 0 {
			t.Fatalf("%+v, lost: %v", got, d.takeover.lost)
		}
		return d.takeover.lost != nil
	})
}

// checkDeviceLost polls until so many peers are reported as lost because the device is.
func checkDeviceLost(t *testing.T, d *domain, device string, peers int) {
	t.Helper()
	waittest.Poll(t, fmt.Sprintf("%d peers are reported as lost", peers), func() bool {
		for _, ev := range pollTimes(t, d, 1) {
			if ev.Kind != fabric.PeerDown || !errors.Is(ev.Err, fabric.ErrPeerDown) || !errors.Is(ev.Err, verbs.ErrDeviceLost) ||
				!strings.Contains(ev.Err.Error(), device) {
				t.Errorf("%+v", ev)
			}
			if err := d.eps[ev.Peer].Send(nil, nil); !errors.Is(err, fabric.ErrPeerDown) {
				t.Errorf("Send without a device: %v", err)
			}
			peers--
		}
		return peers <= 0
	})
}

// setPort changes the state of the port of a device, and raises the event.
func setPort(net *verbstest.SimulatedNetwork, device string, state verbs.PortState) {
	net.SetPort(device, verbstest.SimulatedPort{State: state})
	if state == verbs.PortActive {
		net.RaiseEvent(device, verbs.EventPortActive)
	} else {
		net.RaiseEvent(device, verbs.EventPortError)
	}
}

// TestSimulatedLinkFlap: the link goes down and up several times while messages are sent. None is lost or delivered twice.
func TestSimulatedLinkFlap(t *testing.T) {
	net := verbstest.NewSimulatedNetwork()
	ds := openEach(t, net, "a", "b")
	connectPeers(t, ds[0], ds[1])
	var sent, got [2]uint32
	defer waittest.LogIfFailed(t, func() string { return fmt.Sprintf("sent %d, got %d", sent, got) })
	flap := 0
	waittest.Poll(t, "all messages arrive", func() bool {
		if n := flap * 40; flap < 6 && sent[0] >= uint32(n) {
			setPort(net, "a", verbs.PortDown)
			for range 100 {
				exchangeNumbered(t, ds, &sent, &got, uint32(n)+30)
			}
			setPort(net, "a", verbs.PortActive)
			flap++
		}
		exchangeNumbered(t, ds, &sent, &got, 240)
		return flap == 6 && got[0] == sent[1] && got[1] == sent[0]
	})
	if e := ds[0].eps[1]; e.conn.Epoch < 3 {
		t.Errorf("only %d connections were made", e.conn.Epoch)
	}
}

// exchangeNumbered sends numbered messages in both directions, up to this number, and polls both peers.
func exchangeNumbered(t *testing.T, ds []*domain, sent, got *[2]uint32, most uint32) {
	t.Helper()
	for i, d := range ds {
		if sent[i] < most && d.eps[1-i].Send(binary.NativeEndian.AppendUint32(nil, sent[i]), nil) == nil {
			sent[i]++
		}
		got[i] += numberedMessages(t, d, got[i])
	}
}

// TestSimulatedPortDown: the link stays down. The error of the lost peer names the device and the port.
func TestSimulatedPortDown(t *testing.T) {
	net := verbstest.NewSimulatedNetwork()
	ds := openEach(t, net, "a", "b")
	closeAtOnce(ds)
	connectPeers(t, ds[0], ds[1])
	setPort(net, "a", verbs.PortDown)
	waittest.Until(t, "the event comes", func() bool { return ds[0].deviceEvents.Len() > 0 }) // before the peer is lost
	ev := sendUntilDown(t, ds[0], 1)
	if want := "port 1 of device a is down"; !strings.Contains(ev.Err.Error(), want) {
		t.Errorf("%v does not contain %q", ev.Err, want)
	}
}

// TestSimulatedGIDEvent: the port gets another GID. The event alone makes the process connect again and send its new address.
func TestSimulatedGIDEvent(t *testing.T) {
	net := verbstest.NewSimulatedNetwork()
	gid := func(addr string) hw.GID {
		return hw.GID{Index: 1, Addr: netip.MustParseAddr(addr), Type: hw.GIDRoCEv2, Netdev: "eth0"}
	}
	later := gid("::ffff:10.0.0.9")
	net.SetPort("a", verbstest.SimulatedPort{GIDs: []hw.GID{gid("::ffff:10.0.0.1")}})
	net.SetPort("b", verbstest.SimulatedPort{GIDs: []hw.GID{gid("::ffff:10.0.0.2")}})
	ds := openEach(t, net, "a", "b")
	connectPeers(t, ds[0], ds[1])
	net.SetPort("a", verbstest.SimulatedPort{GIDs: []hw.GID{later}})
	net.RaiseEvent("a", verbs.EventGIDChange)
	defer waittest.LogIfFailed(t, func() string {
		return fmt.Sprintf("the address is %v, and the peer knows %+v", ds[0].rails[0].Address, ds[1].eps[0].addr)
	})
	pollBoth(t, ds, "the peer knows the new address", func() bool {
		return ds[0].rails[0].Address.GID == later.Addr && ds[1].eps[0].addr.Revision != 0
	})
	connectPeers(t, ds[1], ds[0])
	connectPeers(t, ds[0], ds[1])
}

// TestSimulatedDeviceLostAwait: the device of a peer is removed whose user has another transport. The peer that was connected can
// be handed over. That which was not is listed with the reason, is not lost while the other transport reaches it, and can be
// abandoned for that; otherwise it is lost after the heartbeat.
func TestSimulatedDeviceLostAwait(t *testing.T) {
	for _, abandoned := range []bool{true, false} {
		net := verbstest.NewSimulatedNetwork()
		ds := openEach(t, net, "gone", "b", "c")
		closeAtOnce(ds)
		d := ds[0]
		d.takeover.Await()
		connectPeers(t, d, ds[1])
		net.RemoveDevice("gone")
		var leaving []int
		waittest.Poll(t, "the peer is handed over", func() bool {
			pollTimes(t, d, 1)
			d.takeover.Leaving(func(peer int, err error) {
				leaving = append(leaving, peer)
				if !errors.Is(err, verbs.ErrDeviceLost) || errors.Is(err, fabric.ErrPeerDown) { // another transport reaches it
					t.Error(err)
				}
			})
			return len(leaving) > 0
		})
		if _, ok := d.takeover.Left(1); !ok || leaving[0] != 1 || d.eps[1].Send(nil, nil) != fabric.ErrAgain {
			t.Errorf("leaves %d: %v", leaving, ok)
		}
		if err := d.eps[2].Send([]byte("message"), nil); err != fabric.ErrAgain {
			t.Fatal(err)
		}
		d.takeover.ConfirmAlive(2, true)
		var a Attempt
		waittest.Poll(t, "the attempt is overdue", func() bool {
			pollTimes(t, d, 1)
			d.takeover.Attempts(func(peer int, at Attempt) { a = at })
			return a.Requests > 0
		})
		if !errors.Is(a.Err, verbs.ErrDeviceLost) || a.Heard || !d.takeover.Connecting() {
			t.Errorf("%+v", a)
		}
		if abandoned {
			if !d.takeover.Hold(2, true) {
				t.Error("the peer counts as connected")
			}
			d.takeover.Abandon(2)
			if err := d.eps[2].Send([]byte("message"), nil); err != fabric.ErrAgain { // its user may not know yet
				t.Errorf("a send to a peer that another transport reaches: %v", err)
			}
			if got := pollTimes(t, d, enoughPolls); len(got) > 0 || d.takeover.Connecting() {
				t.Errorf("%+v", got)
			}
			continue
		}
		d.eps[2].attempt.since -= 2 * d.settings.Heartbeat
		if got := pollTimes(t, d, enoughPolls); len(got) > 0 {
			t.Errorf("%+v", got)
		}
		d.takeover.ConfirmAlive(2, false)
		checkDeviceLost(t, d, "gone", 1)
	}
}

// TestSimulatedGIDEventSameAddress: a GID was replaced by an equal one, as when a bond fails over. The address handle of the peer
// is renewed when it is used next, and so is one that is being made. The connected peer is probed by the next visit, although it
// has just answered.
func TestSimulatedGIDEventSameAddress(t *testing.T) {
	net := verbstest.NewSimulatedNetwork()
	ds := openEach(t, net, "a", "b")
	connectPeers(t, ds[0], ds[1])
	d, e := ds[0], ds[0].eps[1]
	handle := func() *datagrams.Destination {
		t.Helper()
		var dest *datagrams.Destination
		pollBoth(t, ds, "the handle is made", func() bool {
			var err error
			if dest, err = d.cm.Resolver.Destination(e.peer, &e.addr); err != nil && !errors.Is(err, datagrams.ErrResolving) {
				t.Fatal(err)
			}
			return err == nil && !e.addr.IsResolving() && !e.addr.IsStale()
		})
		return dest
	}
	old := handle()
	pollBoth(t, ds, "all requests end", func() bool { return e.lanes.Queues[0].InFlight() == 0 })
	d.keepalives.At = liveness.Never // so that the visit is not in the same Poll as the event
	net.RaiseEvent("a", verbs.EventGIDChange)
	pollBoth(t, ds, "the event comes", func() bool { return e.keepalive.Probe })
	e.keepalive.Alive = true
	before := e.lanes.Queues[0].Next()
	d.keepalives.At, d.clock.Next = 0, 0
	pollBoth(t, ds, "the peer is visited", func() bool { return !e.keepalive.Probe })
	if posted := e.lanes.Queues[0].Next() - before; posted != 1 {
		t.Errorf("the visit has posted %d requests, want a probe", posted)
	}
	if !e.addr.IsStale() || handle() == old {
		t.Error("the handle was not renewed")
	}
	if e.conn.Epoch != 1 {
		t.Errorf("a connection that works was made again: epoch %d", e.conn.Epoch)
	}
	e.addr.Renew()
	if _, err := d.cm.Resolver.Destination(e.peer, &e.addr); err != nil || !e.addr.IsResolving() {
		t.Fatalf("no other handle is being made: %v", err)
	}
	d.eps.checkHandles()
	pollBoth(t, ds, "the result comes", func() bool { return !e.addr.IsResolving() })
	if !e.addr.IsStale() {
		t.Error("a handle that was being made when the event came is not renewed")
	}
}

// pollBoth polls all domains until so returns true.
func pollBoth(t *testing.T, ds []*domain, what string, so func() bool) {
	t.Helper()
	waittest.Poll(t, what, func() bool {
		if so() {
			return true
		}
		for _, d := range ds {
			pollTimes(t, d, 1)
		}
		return false
	})
}
