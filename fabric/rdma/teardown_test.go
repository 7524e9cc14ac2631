//go:build linux

package rdma

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/closing"
	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/liveness"
	"github.com/ibrun/ibrun/fabric/rdma/internal/posting"
	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/verbs"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

// adapters returns a network of adapters whose completions are late by random numbers of polls. Unlike those of Soft-RoCE, their
// completions are removed when a queue pair is closed.
func adapters(r *rand.Rand) *verbstest.SimulatedNetwork {
	return verbstest.NewSimulatedAdapters(func() int { return r.IntN(4) })
}

// TestSimulatedTeardown breaks connections between adapters at random moments, with messages in both directions. No message is
// lost or delivered twice, and no slot is lost. With IBRUN_SOAK=1, 1,000 connections break.
func TestSimulatedTeardown(t *testing.T) {
	breaks := soaktest.Choose(1000, 60)
	for name, set := range map[string]Settings{
		"one credit": {Devices: []string{"a"}, Window: 1}, "many credits": {Devices: []string{"a"}, Window: 64},
		"two rails": {Devices: []string{"a", "b"}, Window: 8}, "no SRQ": {Devices: []string{"no SRQ"}, Window: 8},
	} {
		t.Run(name, func(t *testing.T) {
			seed := soaktest.Seed(t)
			breakAtRandom(t, rand.New(rand.NewPCG(seed, 1)), set, breaks)
		})
	}
}

// breakAtRandom makes so many connections of two peers break, and checks messages and slots.
func breakAtRandom(t *testing.T, r *rand.Rand, set Settings, breaks int) {
	t.Helper()
	net := adapters(rand.New(rand.NewPCG(r.Uint64(), 2)))
	net.SetDevice("no SRQ", func(d *verbstest.SimulatedDevice) { d.Attr.MaxSRQ = 0 })
	ds := openOn(t, net, set, 2)
	for _, d := range ds {
		d.cm.closing.StepAt = liveness.Never // so that only the last completions end a teardown
	}
	var sent, got [2]uint32
	// The last message of each peer follows the last break. When both have arrived, there is a connection, so that Close need not
	// wait for a peer that does not poll any more.
	var last [2]bool
	left := breaks
	defer waittest.LogIfFailed(t, func() string { return breakState(ds, left, sent, got) })
	waittest.Poll(t, "all connections break, and all messages arrive", func() bool {
		for i, d := range ds {
			e := d.eps[1-i]
			if left > 0 && e.conn.State == cm.StateEstablished && r.IntN(100) == 0 {
				failQuietly(t, e.lanes.Queues[r.IntN(len(e.lanes.Queues))])
				left--
			}
			for range r.IntN(8) {
				if left > 0 && e.Send(binary.NativeEndian.AppendUint32(nil, sent[i]), nil) == nil {
					sent[i]++
				}
			}
			if left == 0 && !last[i] && e.Send(binary.NativeEndian.AppendUint32(nil, sent[i]), nil) == nil {
				sent[i]++
				last[i] = true
			}
			for range r.IntN(4) {
				got[i] += numberedMessages(t, d, got[i])
			}
		}
		return last[0] && last[1] && got[0] == sent[1] && got[1] == sent[0]
	})
	awaitSlots(t, net, ds)
	t.Logf("%d connections broke, and %d messages were sent", breaks, sent[0]+sent[1])
}

// breakState describes two peers whose connections break.
func breakState(ds []*domain, left int, sent, got [2]uint32) string {
	return fmt.Sprintf("%d connections are left to break; sent %d, got %d; %+v and %+v", left, sent, got, ds[0].eps[1], ds[1].eps[0])
}

// numberedMessages polls once, and returns how many messages there were. They must have the numbers from next on.
func numberedMessages(t *testing.T, d *domain, next uint32) (n uint32) {
	t.Helper()
	for _, ev := range pollTimes(t, d, 1) {
		if ev.Kind != fabric.Message || binary.NativeEndian.Uint32(ev.Data) != next+n {
			t.Fatalf("peer %d got %+v in place of message %d", d.self, ev, next+n)
		}
		n++
	}
	return n
}

// failQuietly makes a queue pair fail as a device does: nothing but completions and events report it.
func failQuietly(t *testing.T, q *posting.QueuePair) {
	t.Helper()
	if err := q.QP.Modify(verbs.Attr{State: verbs.StateErr}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
}

// awaitSlots polls until every receive slot is posted, and every send slot is free or in flight.
func awaitSlots(t *testing.T, net *verbstest.SimulatedNetwork, ds []*domain) {
	t.Helper()
	var missing string
	defer waittest.LogIfFailed(t, func() string { return missing })
	waittest.Poll(t, "every slot is posted, free or in flight", func() bool {
		if missing = missingSlots(net, ds); missing == "" {
			return true
		}
		for _, d := range ds {
			if got := pollTimes(t, d, 1); len(got) > 0 {
				t.Fatalf("%+v", got)
			}
		}
		return false
	})
}

// missingSlots describes slots of idle domains that are neither posted nor free, or returns "".
func missingSlots(net *verbstest.SimulatedNetwork, ds []*domain) string {
	shared := net.SharedReceives()
	for i, d := range ds {
		posted, inFlight := len(d.recvs.Free), 0
		if d.recvs.SRQ != nil {
			posted += shared[i]
		}
		for _, e := range d.eps {
			if e == nil || e.lanes.Queues == nil {
				continue
			}
			inFlight += e.lanes.Queues[0].InFlight()
			posted += e.msgs.Posted()
		}
		if posted != d.recvs.Total() {
			return fmt.Sprintf("peer %d: %d of %d receive slots are posted or free", i, posted, d.recvs.Total())
		}
		if busy := d.poster.Sends.Total() - len(d.poster.Sends.Free); busy > inFlight {
			return fmt.Sprintf("peer %d: %d send slots are in use, but %d requests in flight", i, busy, inFlight)
		}
	}
	return ""
}

// TestCloseAfterBreak: two peers close at the same time, right after the queue pair of one or of both has failed, with a message
// in flight or without, and before or after the failure was noticed. Each learns that the other has closed: the DREQ of none is
// outstanding when Close returns, as it is if Close has given up waiting.
func TestCloseAfterBreak(t *testing.T) {
	for mode := range 16 {
		t.Run(fmt.Sprintf("%04b", mode), func(t *testing.T) {
			t.Parallel()
			net := verbstest.NewSimulatedNetwork()
			if mode&8 != 0 {
				net = adapters(rand.New(rand.NewPCG(uint64(mode), 3)))
			}
			ds := openOn(t, net, Settings{Devices: []string{"a"}}, 2)
			connectPeers(t, ds[0], ds[1])
			connectPeers(t, ds[1], ds[0])
			for i, d := range ds {
				d.closeTimeout = waittest.Limit
				if mode&(1<<i) != 0 {
					failQuietly(t, d.eps[1-i].lanes.Queues[0])
				}
				if mode&4 != 0 {
					_ = d.eps[1-i].Send([]byte("message"), nil)
				}
			}
			var both sync.WaitGroup
			for _, d := range ds {
				both.Go(func() {
					if err := d.Close(); err != nil {
						t.Error(err)
					}
				})
			}
			both.Wait()
			for i, d := range ds {
				if s := d.eps[1-i].disconnect; s == disconnectDue || s == disconnectSent {
					t.Errorf("peer %d: the disconnect is in state %d", i, s)
				}
			}
		})
	}
}

// TestTeardownUnconnected: a queue pair that the device has refused to connect has taken no receives. Its teardown does not wait
// for an event that never comes.
func TestTeardownUnconnected(t *testing.T) {
	net := adapters(rand.New(rand.NewPCG(1, 4)))
	ds := openOn(t, net, Settings{Devices: []string{"a"}}, 2)
	a, b := ds[0], ds[1]
	if err := a.eps[1].Send(nil, nil); err == nil {
		t.Fatal("sent without a connection")
	}
	waittest.Poll(t, "the REQ is sent", func() bool {
		pollTimes(t, a, 1)
		return a.eps[1].conn.State == cm.StateREQSent
	})
	refused := 0
	net.Refuse(func(c verbstest.SimulatedCall) error {
		if c != verbstest.CallModifyQP || b.eps[0].lanes.Queues == nil || refused > 0 {
			return nil
		}
		refused++ // of the change to RTR
		return syscall.ENOMEM
	})
	var begun *closing.Connection[*endpoint]
	waittest.Poll(t, "the teardown ends", func() bool {
		pollTimes(t, b, 1)
		if e := b.eps[0]; e.teardown != nil {
			begun = e.teardown
		}
		return refused > 0 && b.eps[0].teardown == nil
	})
	if begun != nil && begun.IsOverdue() {
		t.Error("the last completions were waited for until the time was over")
	}
	exchange(t, a, b)
}
