//go:build linux

package devices

import (
	"sync/atomic"
	"testing"

	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/verbs"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

// openRails opens a rail on each device.
func openRails(t *testing.T, net *verbstest.SimulatedNetwork, names ...string) Rails {
	t.Helper()
	rails := make(Rails, len(names))
	for i, name := range names {
		rails[i] = new(Rail)
		cfg := Config{Index: i, Params: verbs.DefaultParams(), Demand: Demand{Peers: 1, Slots: 64, SharedSlots: 64, BlockSlots: 32,
			SlotBytes: 64, Window: 8, SGE: 1, MessageBytes: cm.MessageBytes(1, 1)}}
		err := rails[i].Open(net.Node(), name, &cfg)
		t.Cleanup(func() {
			if err := rails[i].Close(); err != nil {
				t.Error(err)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return rails
}

// TestEvents: the events of all devices arrive, each with its rail, and wake. Those after Stop do
// not.
func TestEvents(t *testing.T) {
	net := verbstest.NewSimulatedNetwork()
	rails := openRails(t, net, "a", "b")
	var q Events
	var woken atomic.Int32
	q.Stop() // does nothing
	q.Start(rails, func() { woken.Add(1) })
	net.RaiseEvent("b", verbs.EventGIDChange)
	waittest.Until(t, "the first event comes", func() bool { return woken.Load() == 1 })
	net.RaiseEvent("a", verbs.EventPortError)
	waittest.Until(t, "the second event comes", func() bool { return woken.Load() == 2 })
	if q.Len() != 2 {
		t.Fatalf("%d events", q.Len())
	}
	for i, changes := range []bool{true, false} {
		ev := q.Next()
		if ev.Rail != rails[1-i] || !ev.IsOfPort() || ev.MayChangeAddress() != changes {
			t.Errorf("event %d: %v of rail %d; may change the address: %v", i, ev, ev.Rail.Index, ev.MayChangeAddress())
		}
	}
	other := Event{Rail: rails[0], Event: verbs.Event{Type: verbs.EventGIDChange, Port: 2}}
	if other.IsOfPort() || other.MayChangeAddress() {
		t.Error("an event of another port counts")
	}
	if other.Missed = 1; !other.MayChangeAddress() {
		t.Error("after events that were missed, the address is not queried")
	}
	q.Stop()
	net.RaiseEvent("a", verbs.EventPortActive)
	if q.Len() != 0 {
		t.Error("an event comes after Stop")
	}
}

// TestRefresh: a change of the network is found once, with what it means. A port that cannot be
// queried keeps its address.
func TestRefresh(t *testing.T) {
	net := verbstest.NewSimulatedNetwork()
	ib := func(lid uint16, keys ...uint16) verbstest.SimulatedPort {
		return verbstest.SimulatedPort{LinkLayer: "InfiniBand", LID: lid, PKeys: keys}
	}
	net.SetPort("a", ib(1, 0xffff, 0x8001))
	net.SetPort("b", ib(2, 0xffff, 0x8001))
	rails := openRails(t, net, "a", "b")
	small := ib(2, 0x8001, 0xffff)
	small.MTU = verbs.MTU256
	for _, step := range []struct {
		device string
		port   verbstest.SimulatedPort
		want   Change
	}{
		{"a", ib(1, 0xffff, 0x8001), Change{}},
		{"a", ib(3, 0xffff, 0x8001), Change{Any: true, Moved: true}},
		{"a", ib(3, 0, 0x8001, 0xffff), Change{Any: true, Moved: true, Indices: true}},
		{"b", ib(2, 0x8001, 0xffff), Change{Any: true, Moved: true}},
		{"b", small, Change{Any: true}},
	} {
		net.SetPort(step.device, step.port)
		if got := rails.Refresh(); got != step.want {
			t.Errorf("%s: %+v: %+v, want %+v", step.device, step.port, got, step.want)
		}
		if got := rails.Refresh(); got != (Change{}) {
			t.Errorf("%s: %+v again", step.device, got)
		}
	}
	net.Refuse(func(c verbstest.SimulatedCall) error { return verbs.ErrNotSupported })
	net.SetPort("a", ib(9, 0xffff))
	if got := rails.Refresh(); got != (Change{}) || rails[0].Address.LID != 3 {
		t.Errorf("a port that cannot be queried: %+v, %v", got, &rails[0].Address)
	}
	net.Refuse(nil)
}
