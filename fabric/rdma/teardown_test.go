//go:build linux

package rdma

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/ibrun/ibrun/fabric"
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
	breaks := 60
	if os.Getenv("IBRUN_SOAK") == "1" {
		breaks = 1000
	}
	for _, set := range []Settings{
		{Devices: []string{"a"}, Window: 1}, {Devices: []string{"a"}, Window: 64}, {Devices: []string{"a", "b"}, Window: 8},
	} {
		seed := rand.Uint64()
		t.Logf("window %d: seed %d", set.Window, seed)
		breakAtRandom(t, rand.New(rand.NewPCG(seed, 1)), set, breaks)
	}
}

// breakAtRandom makes so many connections of two peers break, and checks messages and slots.
func breakAtRandom(t *testing.T, r *rand.Rand, set Settings, breaks int) {
	t.Helper()
	net := adapters(rand.New(rand.NewPCG(r.Uint64(), 2)))
	ds := openOn(t, net, set, 2)
	var sent, got [2]uint32
	left := breaks
	for step, end := 0, time.Now().Add(time.Minute); left > 0 || got[0] != sent[1] || got[1] != sent[0]; step++ {
		for i, d := range ds {
			e := d.eps[1-i]
			if left > 0 && e.conn.state == stateEstablished && r.IntN(100) == 0 {
				failQuietly(t, e.qps[r.IntN(len(e.qps))])
				left--
			}
			for range r.IntN(8) {
				if left > 0 && e.Send(binary.NativeEndian.AppendUint32(nil, sent[i]), nil) == nil {
					sent[i]++
				}
			}
			for _, ev := range pollTimes(t, d, r.IntN(4)) {
				if ev.Kind != fabric.Message || binary.NativeEndian.Uint32(ev.Data) != got[i] {
					t.Fatalf("step %d: peer %d got %+v in place of message %d", step, i, ev, got[i])
				}
				got[i]++
			}
		}
		if runtime.Gosched(); time.Now().After(end) {
			t.Fatalf("%d connections are left to break; sent %d, got %d; %+v and %+v", left, sent, got, ds[0].eps[1], ds[1].eps[0])
		}
	}
	awaitSlots(t, net, ds)
	t.Logf("%d connections broke, and %d messages were sent", breaks, sent[0]+sent[1])
}

// failQuietly makes a queue pair fail as a device does: nothing but completions and events report it.
func failQuietly(t *testing.T, q *queuePair) {
	t.Helper()
	if err := q.qp.Modify(verbs.Attr{State: verbs.StateErr}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
}

// awaitSlots polls until every receive slot is posted, and every send slot is free or in flight.
func awaitSlots(t *testing.T, net *verbstest.SimulatedNetwork, ds []*domain) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; runtime.Gosched() {
		missing := missingSlots(net, ds)
		if missing == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatal(missing)
		}
		for _, d := range ds {
			if got := pollTimes(t, d, 1); len(got) > 0 {
				t.Fatalf("%+v", got)
			}
		}
	}
}

// missingSlots describes slots of idle domains that are neither posted nor free, or returns "".
func missingSlots(net *verbstest.SimulatedNetwork, ds []*domain) string {
	posted := net.SharedReceives()
	for i, d := range ds {
		if posted[i] != d.recvs.total() {
			return fmt.Sprintf("peer %d: %d of %d receive slots are posted", i, posted[i], d.recvs.total())
		}
		inFlight := 0
		for _, e := range d.eps {
			if e != nil && e.qps != nil {
				inFlight += e.qps[0].inFlight()
			}
		}
		if busy := d.sends.total() - len(d.sends.free); busy > inFlight {
			return fmt.Sprintf("peer %d: %d send slots are in use, but %d requests in flight", i, busy, inFlight)
		}
	}
	return ""
}
