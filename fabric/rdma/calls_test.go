//go:build linux

package rdma

import (
	"maps"
	"sync"
	"testing"

	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/verbs"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

// callCounter counts calls of simulated devices.
type callCounter struct {
	mu sync.Mutex
	n  map[verbstest.SimulatedCall]int
}

// countCalls counts the calls that f makes, apart from registrations.
func countCalls(net *verbstest.SimulatedNetwork, f func()) map[verbstest.SimulatedCall]int {
	c := callCounter{n: map[verbstest.SimulatedCall]int{}}
	net.Refuse(func(call verbstest.SimulatedCall) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.n[call]++
		return nil
	})
	f()
	net.Refuse(nil)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.n, verbstest.CallRegMR) // bounce buffers are registered for many peers at a time
	return maps.Clone(c.n)
}

// TestSimulatedCallsPerConnection: each side of a connection creates a queue pair, changes its state three times, and creates an
// address handle. It queries nothing, also for the first connection of a process. Only an event makes it query once more.
func TestSimulatedCallsPerConnection(t *testing.T) {
	net, ds := openSimulated(t, Settings{Devices: []string{"a"}}, 4)
	want := map[verbstest.SimulatedCall]int{verbstest.CallCreateQP: 2, verbstest.CallModifyQP: 6, verbstest.CallToInit: 2,
		verbstest.CallToRTR: 2, verbstest.CallToRTS: 2, verbstest.CallCreateAH: 2}
	for _, peer := range []int{1, 2} {
		if got := countCalls(net, func() { connectPeers(t, ds[0], ds[peer]) }); !maps.Equal(got, want) {
			t.Errorf("a connection to peer %d took %v, want %v", peer, got, want)
		}
	}
	// A connection that is made again needs no address handle, but the states of the old one are queried and changed.
	again := countCalls(net, func() {
		breakConn(t, ds[0], ds[1])
		connectPeers(t, ds[0], ds[1])
	})
	if again[verbstest.CallCreateAH] != 0 || again[verbstest.CallQueryPort] != 0 || again[verbstest.CallQueryGIDs] != 0 {
		t.Errorf("a connection that was made again took %v", again)
	}
	events := func(d *domain) int { return d.deviceEvents.Len() }
	net.RaiseEvent("a", verbs.EventGIDChange)
	waittest.Until(t, "the event comes", func() bool { return events(ds[0]) > 0 && events(ds[3]) > 0 })
	got := countCalls(net, func() { connectPeers(t, ds[0], ds[3]) })
	if got[verbstest.CallQueryPort] == 0 || got[verbstest.CallQueryGIDs] == 0 {
		t.Errorf("after an event, a connection took %v", got)
	}
}
