//go:build linux

package rdma

import (
	"testing"

	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/messages"
)

// TestSimulatedGrantAfterAnswer: a connection breaks when the receiver holds all messages that its peer may send. It frees
// their slots after it has sent a REP and before the new connection is established. The peer is granted these credits,
// whichever repetition of the REP has arrived.
func TestSimulatedGrantAfterAnswer(t *testing.T) {
	for _, again := range []bool{false, true} {
		_, ds := openSimulated(t, Settings{Devices: []string{"a"}, Window: 1}, 2)
		a, b := ds[0], ds[1]
		connectPeers(t, a, b)
		for b.clock.Polls%progressEvery != progressEvery-1 { // the next Poll calls progress
			pollTimes(t, b, 1)
		}
		sent := 0
		for a.eps[1].Send([]byte("message"), nil) == nil {
			sent++
		}
		a.poster.RingDeferred()
		breakConn(t, a, b)
		if got := pollTimes(t, b, 1); len(got) != sent {
			t.Fatalf("%d messages arrived, but %d were sent: %+v", len(got), sent, got)
		}
		for range enoughPolls { // releases the borrowed slots
			if got := pollTimes(t, b, 1); len(got) > 0 {
				t.Fatalf("%+v", got)
			}
		}
		if b.eps[0].conn.State != cm.StateREPSent {
			t.Fatalf("state %d", b.eps[0].conn.State)
		}
		if again {
			a.cm.sendREQ(a.eps[1], 0)
			pollTimes(t, b, enoughPolls)
		}
		for range enoughPolls {
			pollTimes(t, a, 1)
			pollTimes(t, b, 1)
		}
		if err := a.eps[1].Send([]byte("message"), nil); err != nil {
			t.Errorf("second REQ %v: once the new connection is established: %v", again, err)
		}
	}
}

// TestCreditAfterConfirmation: a slot was freed while the last control message was not confirmed, as one is that ends a series of
// failures. If a control message of the peer confirms it, the credit is sent: the peer has none, so it sends nothing else.
func TestCreditAfterConfirmation(t *testing.T) {
	_, ds := openSimulated(t, Settings{Devices: []string{"a"}, Window: 1}, 2)
	connectPeers(t, ds[0], ds[1])
	connectPeers(t, ds[1], ds[0])
	a, b := ds[0].eps[1], ds[1].eps[0]
	pollTimes(t, ds[0], enoughPolls)
	b.msgs.In.ControlUnacked, b.msgs.In.ControlGrant = true, b.msgs.In.Granted+1 // a does not know of it when it sends the message
	if err := a.Send([]byte("message"), nil); err != nil {
		t.Fatal(err)
	}
	if evs := pollTimes(t, ds[1], 1); len(evs) != 1 {
		t.Fatalf("%+v", evs)
	}
	pollTimes(t, ds[1], enoughPolls) // frees the slot
	if pollTimes(t, ds[0], enoughPolls); !b.msgs.In.ControlUnacked || a.msgs.Out.HasCredit() {
		t.Fatalf("a credit was sent: %+v", b.msgs.In)
	}
	b.msgs.In.ControlGrant, a.msgs.In.ControlUnacked = b.msgs.In.Granted, false
	a.sendControl(messages.Credit)
	pollTimes(t, ds[1], enoughPolls)
	if pollTimes(t, ds[0], enoughPolls); !a.msgs.Out.HasCredit() {
		t.Errorf("the credit was not sent: %+v", b.msgs.In)
	}
}
