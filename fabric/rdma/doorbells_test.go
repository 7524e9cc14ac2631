//go:build linux

package rdma

import (
	"testing"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

// sendsInRow sends several messages without a Poll between them, and returns how many of them the peer finds before that Poll.
func sendsInRow(t *testing.T, net *verbstest.SimulatedNetwork) (sent, found int) {
	t.Helper()
	ds := openOn(t, net, Settings{Devices: []string{"a"}}, 2)
	a, b := ds[0], ds[1]
	a.poster.Mu.Lock()
	a.poster.RingTimer.Stop()                     // it was not started yet
	a.poster.RingTimer = time.NewTimer(time.Hour) // it calls nothing, so only this goroutine rings
	a.poster.Mu.Unlock()
	connectPeers(t, a, b)
	for a.eps[1].msgs.Out.Grant-a.eps[1].msgs.Out.Sent < 3 { // the window grows while messages are sent
		send(t, a, b)
		pollTimes(t, b, 4)
		pollTimes(t, a, 4)
	}
	for sent < 3 {
		if err := a.eps[1].Send([]byte("message"), nil); err != nil {
			t.Fatal(err)
		}
		sent++
	}
	for range enoughPolls {
		for _, ev := range pollTimes(t, b, 1) {
			if ev.Kind == fabric.Message {
				found++
			}
		}
	}
	return sent, found
}

// TestSimulatedDoorbells: where a doorbell is a store, every message is sent at once. Where it is a system call, messages behind
// the first wait for the next Poll.
func TestSimulatedDoorbells(t *testing.T) {
	if sent, found := sendsInRow(t, verbstest.NewSimulatedAdapters(func() int { return 0 })); found != sent {
		t.Errorf("with a doorbell that is a store, the peer finds %d of %d messages before the sender polls", found, sent)
	}
	if _, found := sendsInRow(t, verbstest.NewSimulatedNetwork()); found != 1 {
		t.Errorf("with a doorbell that is a system call, the peer finds %d messages before the sender polls, want 1", found)
	}
}
