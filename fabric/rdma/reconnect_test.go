//go:build linux

package rdma

import (
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/verbs"
)

// TestSimulatedBreaksAnywhere breaks the connection on either side at many points of a stream of messages in both directions,
// also while it is being made again. No message is lost or delivered twice, and no slot is lost.
func TestSimulatedBreaksAnywhere(t *testing.T) {
	for _, window := range []int{1, 3, 64} {
		for first := range 12 {
			breaksAnywhere(t, window, first)
		}
	}
}

func breaksAnywhere(t *testing.T, window, first int) {
	t.Helper()
	_, ds := openSimulated(t, Settings{Devices: []string{"a"}, Window: window}, 2)
	connectPeers(t, ds[0], ds[1])
	connectPeers(t, ds[1], ds[0])
	const most, steps, breaks = 120, 100_000, 12
	var sent, got [2]byte
	for step := 0; got != [2]byte{most, most}; step++ {
		for i, d := range ds {
			e := d.eps[1-i]
			if e.conn.Epoch < breaks && (step+first)%(7+first+5*i) == 0 {
				failQP(t, d, e)
			}
			for range max(2, window/2) {
				if sent[i] < most && e.Send([]byte{sent[i]}, nil) == nil {
					sent[i]++
				}
			}
			if (step+i)%3 == first%3 {
				continue // this peer computes
			}
			for _, ev := range pollTimes(t, d, 1) {
				if ev.Kind != fabric.Message || ev.Data[0] != got[i] {
					t.Fatalf("window %d, first %d: peer %d got %+v in place of message %d", window, first, i, ev, got[i])
				}
				got[i]++
			}
		}
		if step > steps {
			t.Fatalf("window %d, first %d: sent %d, got %d; %+v and %+v", window, first, sent, got, ds[0].eps[1], ds[1].eps[0])
		}
	}
	pollUntilIdle(t, ds...)
	for i, d := range ds {
		e := d.eps[1-i]
		if e.msgs.Held != 0 || d.recvs.Reserved != int(e.msgs.In.Window)+1 {
			t.Errorf("window %d, first %d: peer %d: %d slots held, %d reserved", window, first, i, e.msgs.Held, d.recvs.Reserved)
		}
		if busy := d.poster.Sends.Total() - len(d.poster.Sends.Free); busy > e.lanes.Queues[0].InFlight()+len(e.unacked) {
			t.Errorf("window %d, first %d: peer %d: %d send slots are lost", window, first, i, busy)
		}
	}
}

// failQP makes the queue pair of a connection fail, unless this side has sent a REP and the connection is not established yet:
// then only the keepalive of the other side would find the failure, which takes seconds.
func failQP(t *testing.T, d *domain, e *endpoint) {
	t.Helper()
	if e.lanes.Queues == nil || e.conn.State == cm.StateREPSent {
		return
	}
	if err := e.lanes.Queues[0].QP.Modify(verbs.Attr{State: verbs.StateErr}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	if e.conn.State == cm.StateEstablished {
		e.declareBroken(verbs.ErrState)
	}
}
