//go:build linux

package rdma

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/verbs"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

// openSimulated opens peers on a simulated network, and connects their endpoints.
func openSimulated(t *testing.T, set Settings, peers int) (*verbstest.SimulatedNetwork, []*domain) {
	t.Helper()
	net := verbstest.NewSimulatedNetwork()
	return net, openOn(t, net, set, peers)
}

// openOn is openSimulated on a given network.
func openOn(t *testing.T, net *verbstest.SimulatedNetwork, set Settings, peers int) []*domain {
	t.Helper()
	trs := make([]*Transport, peers)
	for i := range trs {
		trs[i] = &Transport{Settings: set, Network: net.Node()}
	}
	return openTransports(t, trs)
}

// openEach opens a peer on each of the devices.
func openEach(t *testing.T, net *verbstest.SimulatedNetwork, devices ...string) []*domain {
	t.Helper()
	var trs []*Transport
	for _, d := range devices {
		trs = append(trs, &Transport{Settings: Settings{Devices: []string{d}}, Network: net.Node()})
	}
	return openTransports(t, trs)
}

// openTransports opens a peer with each transport, and connects their endpoints.
func openTransports(t *testing.T, trs []*Transport) []*domain {
	t.Helper()
	var key [32]byte
	rand.Read(key[:])
	ds := make([]*domain, len(trs))
	for i := range ds {
		trs[i].Key = key
		fd, err := trs[i].Open(t.Context(), &fabric.Config{Self: i, Size: len(ds)})
		if err != nil {
			t.Fatal(err)
		}
		d := fd.(*domain)
		d.cm.Resolver.Patience = time.Minute // so that the order of events does not depend on time
		ds[i] = d
		t.Cleanup(func() {
			if !d.poster.Mu.TryLock() {
				return // the test has panicked; waiting here would hide the message
			}
			d.poster.Mu.Unlock()
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	for i, d := range ds {
		for j, o := range ds {
			if _, err := d.Connect(j, o.Addr()); i != j && err != nil {
				t.Fatal(err)
			}
		}
	}
	return ds
}

// pollTimes polls a domain several times, and returns the events. The bytes of messages are valid only until the next Poll.
func pollTimes(t *testing.T, d *domain, times int) (got []fabric.Event) {
	t.Helper()
	var evs [16]fabric.Event
	for range times {
		n, err := d.Poll(evs[:])
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, evs[:n]...)
	}
	return got
}

// enoughPolls is a number of Polls that completes all work that does not wait for a timer.
const enoughPolls = 50

// connectPeers connects two peers by a message from the first to the second.
func connectPeers(t *testing.T, a, b *domain) {
	t.Helper()
	send(t, a, b)
	waittest.Poll(t, "the first message arrives", func() bool {
		arrived := len(pollTimes(t, b, 1)) == 1
		if !arrived {
			pollTimes(t, a, 1)
		}
		return arrived
	})
	pollTimes(t, b, 4) // releases the slot, and grants a credit
	pollTimes(t, a, 4)
}

// closeAtOnce makes Close wait for no answers: some peers cannot answer any more.
func closeAtOnce(ds []*domain) {
	for _, d := range ds {
		d.closeTimeout = 0
	}
}

// letPass makes the clock of a domain later by an interval of the keepalive, which counts them and needs a Poll for each. Timers
// that have expired run in the next Poll.
func letPass(d *domain) {
	d.clock.Start = d.clock.Start.Add(-d.liveness.Interval)
	d.clock.ReadAt = 0
	d.takeover.FullPoll()
}

// send sends a message. If the two are not connected, that takes a while.
func send(t *testing.T, a, b *domain) {
	t.Helper()
	waittest.Poll(t, "there is a credit for a message", func() bool {
		err := a.eps[b.self].Send([]byte("message"), nil)
		if err == nil {
			return true
		}
		if err != fabric.ErrAgain {
			t.Fatal(err)
		}
		pollTimes(t, a, 1)
		pollTimes(t, b, 1)
		return false
	})
}

// breakConn breaks the connection of a to b, and makes a request another.
func breakConn(t *testing.T, a, b *domain) {
	t.Helper()
	q := a.eps[b.self].lanes.Queues[0].QP
	if err := q.Modify(verbs.Attr{State: verbs.StateErr}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	a.eps[b.self].declareBroken(verbs.ErrState)
	pollTimes(t, a, 4)
}

// TestSimulatedMessages tests these helpers with messages in both directions.
func TestSimulatedMessages(t *testing.T) {
	_, ds := openSimulated(t, Settings{Devices: []string{"a"}}, 2)
	connectPeers(t, ds[0], ds[1])
	connectPeers(t, ds[1], ds[0])
}
