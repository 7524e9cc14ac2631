//go:build linux

package rdma

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

// TestReach: both ends compute the same preference, in which each property counts more than all that follow it. Domains of
// different link layers or partitions do not reach each other.
func TestReach(t *testing.T) {
	net := verbstest.NewSimulatedNetwork()
	ip := func(addr string) verbstest.SimulatedPort {
		a := netip.AddrFrom16(netip.MustParseAddr(addr).As16())
		return verbstest.SimulatedPort{GIDs: []hw.GID{{Index: 1, Type: hw.GIDRoCEv2, Netdev: "eth0", Addr: a}}}
	}
	net.SetPort("eth", ip("10.0.0.1"))
	net.SetPort("same", ip("10.0.0.2"))
	net.SetPort("other", ip("10.0.9.1"))
	net.SetPort("ib", verbstest.SimulatedPort{LinkLayer: hw.LinkInfiniBand, LID: 1})
	net.SetPort("part", verbstest.SimulatedPort{LinkLayer: hw.LinkInfiniBand, LID: 2, PKeys: []uint16{0x8007}})
	open := func(device string, l cm.Link) *domain {
		fd, err := (&Transport{Settings: Settings{Devices: []string{device}}, Network: net.Node()}).Open(t.Context(),
			&fabric.Config{Size: 2})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { fd.Close() })
		d := fd.(*domain)
		a, err := cm.ParseAddress(d.addr)
		if err != nil {
			t.Fatal(err)
		}
		d.cm.Link, a.Link = l, l
		d.addr = a.Append(nil)
		return d
	}
	worst := open("other", cm.Link{PrefixBits: 120})
	eth := open("eth", cm.Link{PrefixBits: 120})
	slow := open("same", cm.Link{Rate: 10, PrefixBits: 120})
	near := open("same", cm.Link{Rate: 10, PrefixBits: 120, Near: true})
	fast := open("same", cm.Link{Rate: 11, PrefixBits: 120})
	assigned := open("same", cm.Link{Rate: 10, PrefixBits: 120, Preferred: true})
	routed := open("other", cm.Link{Rate: 400, PrefixBits: 120, Preferred: true, Near: true})
	eth.cm.Link.Rate = 400
	a, _ := cm.ParseAddress(eth.addr)
	a.Link = eth.cm.Link
	eth.addr = a.Append(nil)
	var last uint64
	for i, d := range []*domain{worst, routed, slow, near, fast, assigned} {
		got, err := eth.Reach(d.addr)
		back, errBack := d.Reach(eth.addr)
		if err != nil || errBack != nil || got != back || i > 0 && got <= last {
			t.Errorf("domain %d: %#x, %v, and from the other end %#x, %v; the one before it has %#x", i, got, err, back, errBack, last)
		}
		last = got
	}
	ib, part := open("ib", cm.Link{}), open("part", cm.Link{})
	for _, pair := range [][2]*domain{{eth, ib}, {ib, eth}, {ib, part}, {part, ib}} {
		if _, err := pair[0].Reach(pair[1].addr); !errors.Is(err, fabric.ErrNotSupported) {
			t.Errorf("from %v to %v: %v", &pair[0].rails[0].Address, &pair[1].rails[0].Address, err)
		}
	}
	if _, err := eth.Reach([]byte{1}); !errors.Is(err, fabric.ErrCorrupt) {
		t.Errorf("a truncated address: %v", err)
	}
}

// TestLimitsOfSecond: if the device of the first subnet cannot be used, the limits are those of the second one.
func TestLimitsOfSecond(t *testing.T) {
	net := verbstest.NewSimulatedNetwork()
	net.SetPort("ib", verbstest.SimulatedPort{LinkLayer: hw.LinkInfiniBand, LID: 1, Rate: 400e9})
	net.SetDevice("ib", func(d *verbstest.SimulatedDevice) { d.NoUD = true })
	net.SetPort("eth", verbstest.SimulatedPort{Rate: 100e9})
	l, err := (&Transport{Network: net.Node("ib", "eth")}).Limits()
	if err != nil || len(l.Settings.Devices) != 1 || l.Settings.Devices[0] != "eth" {
		t.Errorf("devices %q, %v", l.Settings.Devices, err)
	}
	if _, err := (&Transport{Network: net.Node("ib")}).Limits(); !errors.Is(err, fabric.ErrNotSupported) {
		t.Errorf("only a device that cannot be used: %v", err)
	}
}
