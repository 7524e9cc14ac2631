//go:build linux

package rdma

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/devices"
	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/verbs"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

// openPatient opens peers that lose no other within a minute, unless letPass is called.
func openPatient(t *testing.T, peers int) (*verbstest.SimulatedNetwork, []*domain) {
	t.Helper()
	return openSimulated(t, Settings{Devices: []string{"a"}, Heartbeat: time.Minute}, peers)
}

func kill(t *testing.T, d *domain) {
	t.Helper()
	if err := (killable{}).Kill(d); err != nil {
		t.Fatal(err)
	}
}

// sendUntilDown sends to a peer until it is reported as down, and returns the event. Time passes meanwhile.
func sendUntilDown(t *testing.T, a *domain, peer int) (down fabric.Event) {
	t.Helper()
	defer waittest.LogIfFailed(t, func() string { return fmt.Sprintf("peer %d: %+v", peer, a.eps[peer]) })
	waittest.Poll(t, "the peer is reported as down", func() bool {
		if err := a.eps[peer].Send(nil, nil); err != nil && err != fabric.ErrAgain && !errors.Is(err, fabric.ErrPeerDown) {
			t.Fatal(err)
		}
		evs := pollTimes(t, a, 1)
		if len(evs) == 0 {
			letPass(a)
			return false
		}
		down = evs[0]
		if down.Kind != fabric.PeerDown || int(down.Peer) != peer || !errors.Is(down.Err, fabric.ErrPeerDown) {
			t.Fatalf("%+v", down)
		}
		if err := a.eps[peer].Send(nil, nil); !errors.Is(err, fabric.ErrPeerDown) {
			t.Errorf("Send to a lost peer: %v", err)
		}
		return true
	})
	return down
}

// TestSimulatedConnectToKilled: a peer that was killed is reported: before this side connects to it, while it is being connected
// to, after it has sent a REQ, and after it was connected.
func TestSimulatedConnectToKilled(t *testing.T) {
	t.Run("before", func(t *testing.T) {
		_, ds := openPatient(t, 2)
		kill(t, ds[1])
		if ev := sendUntilDown(t, ds[0], 1); errors.Is(ev.Err, fabric.ErrPeerClosed) {
			t.Errorf("reported as closed: %v", ev.Err)
		}
	})
	t.Run("REQ sent", func(t *testing.T) {
		_, ds := openPatient(t, 2)
		if err := ds[0].eps[1].Send(nil, nil); err != fabric.ErrAgain {
			t.Fatal(err)
		}
		pollTimes(t, ds[0], 4)
		kill(t, ds[1])
		sendUntilDown(t, ds[0], 1)
	})
	t.Run("REQ received", func(t *testing.T) {
		_, ds := openPatient(t, 2)
		if err := ds[1].eps[0].Send(nil, nil); err != fabric.ErrAgain {
			t.Fatal(err)
		}
		pollTimes(t, ds[1], 4)
		pollTimes(t, ds[0], 4)
		if s := ds[0].eps[1].conn.State; s != cm.StateREPSent {
			t.Fatalf("state %d", s)
		}
		kill(t, ds[1])
		sendUntilDown(t, ds[0], 1)
	})
	t.Run("connected", func(t *testing.T) {
		_, ds := openPatient(t, 2)
		connectPeers(t, ds[0], ds[1])
		kill(t, ds[1])
		pollUntilDown(t, ds[0])
	})
	t.Run("broken", func(t *testing.T) {
		_, ds := openPatient(t, 2)
		connectPeers(t, ds[0], ds[1])
		kill(t, ds[1])
		breakConn(t, ds[0], ds[1])
		pollUntilDown(t, ds[0])
	})
}

// pollUntilDown polls until a peer is reported as down. Time passes meanwhile.
func pollUntilDown(t *testing.T, d *domain) {
	t.Helper()
	waittest.Poll(t, "the peer is reported as down", func() bool {
		for _, ev := range pollTimes(t, d, 1) {
			if ev.Kind == fabric.PeerDown {
				return true
			}
		}
		letPass(d)
		return false
	})
}

// TestSimulatedConnectToClosed: a peer that has closed before this side connects is reported as closed, whether or not it knew
// this side. If its notice is lost, it is reported as down.
func TestSimulatedConnectToClosed(t *testing.T) {
	for _, lost := range []bool{false, true} {
		net, ds := openPatient(t, 2)
		net.DropDatagrams(func() bool { return lost })
		ds[1].closeTimeout = waittest.Limit
		if err := ds[1].Close(); err != nil {
			t.Fatal(err)
		}
		net.DropDatagrams(nil)
		ev := sendUntilDown(t, ds[0], 1)
		if errors.Is(ev.Err, fabric.ErrPeerClosed) == lost {
			t.Errorf("notice lost %v: %v", lost, ev.Err)
		}
	}
}

// TestSimulatedCloseNotifiesMany: more peers are notified than datagrams can be in flight.
func TestSimulatedCloseNotifiesMany(t *testing.T) {
	_, ds := openPatient(t, 3*devices.DatagramSends)
	ds[0].closeTimeout = waittest.Limit
	if err := ds[0].Close(); err != nil {
		t.Fatal(err)
	}
	for i, d := range ds[1:] {
		got := pollTimes(t, d, enoughPolls)
		if len(got) != 1 || got[0].Kind != fabric.PeerDown || !errors.Is(got[0].Err, fabric.ErrPeerClosed) {
			t.Fatalf("peer %d: %+v", i+1, got)
		}
	}
}

// TestSimulatedConnectToBusy: a peer that does not poll for two heartbeats, because it computes, is not down. It is connected
// when it polls again. The same holds for a peer that has sent a REQ, and for one whose connection broke.
func TestSimulatedConnectToBusy(t *testing.T) {
	for name, before := range map[string]func(t *testing.T, a, b *domain){
		"idle": func(*testing.T, *domain, *domain) {},
		"REQ received": func(t *testing.T, a, b *domain) {
			if err := b.eps[0].Send(nil, nil); err != fabric.ErrAgain {
				t.Fatal(err)
			}
			pollTimes(t, b, 4)
		},
		"broken": func(t *testing.T, a, b *domain) {
			connectPeers(t, a, b)
			breakConn(t, a, b)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, ds := openPatient(t, 2) // only intervals that expire early count
			a, b := ds[0], ds[1]
			before(t, a, b)
			e := a.eps[1]
			poll := func() {
				if err := e.Send(nil, nil); err != nil && err != fabric.ErrAgain {
					t.Fatal(err)
				}
				if got := pollTimes(t, a, 1); len(got) != 0 {
					t.Fatalf("%+v", got)
				}
			}
			waittest.Poll(t, "an attempt to connect begins", func() bool {
				poll()
				return e.retry.timer.IsSet()
			})
			e.attempt.since -= 2 * a.settings.Heartbeat
			s := &e.retry.silence
			for range 2 * a.liveness.MaxMissed {
				probe := s.Probe
				s.At = 0 // the interval expires
				e.d.cm.scheduleConnecting(e)
				a.clock.ReadAt = 0
				waittest.Poll(t, "a probe is answered", func() bool {
					poll()
					return s.Probe != probe && s.Answered == s.Probe
				})
			}
			connectPeers(t, a, b)
		})
	}
}

// TestSimulatedResponderRecovers: the link was down when the responder answered. It answers again later.
func TestSimulatedResponderRecovers(t *testing.T) {
	_, ds := openPatient(t, 2)
	a, b := ds[0], ds[1]
	if err := b.cm.Responder.QueuePairs()[0].Modify(verbs.Attr{State: verbs.StateErr}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	waittest.Poll(t, "a probe is answered", func() bool {
		if err := a.eps[1].Send(nil, nil); err != fabric.ErrAgain {
			t.Fatal(err)
		}
		pollTimes(t, a, 1)
		return a.eps[1].retry.silence.Answered != 0
	})
}
