//go:build linux

package verbs_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/verbs"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

const (
	linkLocal = 0xfe80 << 48
	site      = 0xfec0 << 48
)

// infiniBand returns an InfiniBand port with 2^lmc LIDs in a subnet.
func infiniBand(lid uint16, lmc uint8, prefix uint64, needsGRH bool) verbstest.SimulatedPort {
	return verbstest.SimulatedPort{LinkLayer: hw.LinkInfiniBand, LID: lid, LMC: lmc, GRHRequired: needsGRH, MTU: verbs.MTU4096,
		GIDs: []hw.GID{{Index: 0, Addr: verbstest.InfiniBandGID(prefix, lid), Type: hw.GIDInfiniBand}}}
}

// ethernet returns a RoCE port with one GID.
func ethernet(index int, addr string, typ hw.GIDType) verbstest.SimulatedPort {
	ip := netip.MustParseAddr(addr)
	return verbstest.SimulatedPort{MTU: verbs.MTU2048,
		GIDs: []hw.GID{{Index: index, Addr: netip.AddrFrom16(ip.As16()), Type: typ, Netdev: "eth0"}}}
}

// portPair is a pair of ports with queue pairs of one type.
type portPair struct {
	devs [2]*verbs.Context
	qps  [2]*verbs.QP
	cqs  [2]*verbs.CQ
	mrs  [2]*verbs.MR
}

func openPair(t *testing.T, net *verbstest.SimulatedNetwork, cfg verbs.QPConfig, ports ...verbstest.SimulatedPort) (p portPair) {
	t.Helper()
	for i, name := range []string{"a", "b"} {
		net.SetPort(name, ports[i])
		dev, err := net.Open(name)
		must(t, err)
		t.Cleanup(func() { must(t, dev.Close()) })
		pd, err := dev.AllocPD()
		must(t, err)
		p.devs[i] = dev
		p.cqs[i], err = dev.CreateCQ(16, nil)
		must(t, err)
		p.mrs[i], err = pd.Register(make([]byte, 64), verbs.LocalWrite)
		must(t, err)
		cfg.SendCQ = p.cqs[i]
		p.qps[i], err = pd.CreateQP(cfg)
		must(t, err)
		must(t, p.qps[i].Recv(7, p.mrs[i].SGE(0, 64)))
	}
	return p
}

// addresses returns the addresses of both queue pairs, as the peers decode them.
func (p *portPair) addresses(t *testing.T) (as [2]verbs.Address) {
	t.Helper()
	for i, q := range p.qps {
		a, err := q.Address()
		must(t, err)
		b, err := a.MarshalBinary()
		must(t, err)
		must(t, as[i].UnmarshalBinary(b))
		if as[i] != a {
			t.Errorf("address %+v was decoded as %+v", a, as[i])
		}
	}
	return as
}

// delivered reports whether a message from the first queue pair arrives at the second.
func (p *portPair) delivered(t *testing.T, post func() error) bool {
	t.Helper()
	must(t, post())
	must(t, p.qps[0].Ring())
	n, err := p.cqs[1].Poll(make([]verbs.WC, 1))
	must(t, err)
	return n == 1
}

// TestPath: address vectors have a global route header where one of the ports or the subnets require it, and the LIDs of the
// path. Messages arrive, by connections and as datagrams.
func TestPath(t *testing.T) {
	global := func(a verbs.AHAttr, gid string, index uint8) verbs.AHAttr {
		a.GID, a.SGIDIndex, a.HopLimit = netip.AddrFrom16(netip.MustParseAddr(gid).As16()), index, 64
		return a
	}
	for name, c := range map[string]struct {
		a, b verbstest.SimulatedPort
		path uint8
		want verbs.AHAttr // from a to b
		mtu  verbs.MTU
	}{
		"one subnet": {a: infiniBand(4, 0, linkLocal, false), b: infiniBand(5, 0, linkLocal, false),
			want: verbs.AHAttr{LID: 5}, mtu: verbs.MTU4096},
		"GRH required here": {a: infiniBand(4, 0, linkLocal, true), b: infiniBand(5, 0, linkLocal, false),
			want: global(verbs.AHAttr{LID: 5}, "fe80::5", 0), mtu: verbs.MTU4096},
		"GRH required there": {a: infiniBand(4, 0, linkLocal, false), b: infiniBand(5, 0, linkLocal, true),
			want: global(verbs.AHAttr{LID: 5}, "fe80::5", 0), mtu: verbs.MTU4096},
		"two subnets": {a: infiniBand(4, 0, site|1, false), b: infiniBand(5, 0, site|2, false),
			want: global(verbs.AHAttr{LID: 5}, "fec0:0:0:2::5", 0), mtu: verbs.MTU4096},
		"several LIDs, first path": {a: infiniBand(4, 2, linkLocal, false), b: infiniBand(8, 1, linkLocal, false),
			want: verbs.AHAttr{LID: 8}, mtu: verbs.MTU4096},
		"several LIDs, path 3": {a: infiniBand(4, 2, linkLocal, false), b: infiniBand(8, 1, linkLocal, false), path: 3,
			want: verbs.AHAttr{LID: 9, PathBits: 3}, mtu: verbs.MTU4096},
		"one LID, path 3": {a: infiniBand(4, 0, linkLocal, false), b: infiniBand(8, 2, linkLocal, false), path: 3,
			want: verbs.AHAttr{LID: 11}, mtu: verbs.MTU4096},
		"RoCE v2": {a: ethernet(3, "10.0.0.1", hw.GIDRoCEv2), b: ethernet(5, "10.0.0.2", hw.GIDRoCEv2),
			want: global(verbs.AHAttr{}, "10.0.0.2", 3), mtu: verbs.MTU2048},
		"different MTU": {a: ethernet(3, "10.0.0.1", hw.GIDRoCEv2),
			b:    verbstest.SimulatedPort{MTU: verbs.MTU1024, GIDs: ethernet(5, "10.0.0.2", hw.GIDRoCEv2).GIDs},
			want: global(verbs.AHAttr{}, "10.0.0.2", 3), mtu: verbs.MTU1024},
	} {
		t.Run(name, func(t *testing.T) {
			params := verbs.DefaultParams()
			params.Path = c.path
			c.want.Port = 1
			p := openPair(t, verbstest.NewSimulatedNetwork(), verbs.QPConfig{Type: verbs.RC}, c.a, c.b)
			as := p.addresses(t)
			must(t, p.qps[0].ConnectWith(as[1], params))
			must(t, p.qps[1].ConnectWith(as[0], params))
			got, err := p.qps[0].Query(verbs.AttrAH | verbs.AttrMTU)
			if err != nil || got.AH != c.want || got.MTU != c.mtu {
				t.Errorf("address vector %+v, MTU %v, %v\nwant %+v, %v", got.AH, got.MTU, err, c.want, c.mtu)
			}
			if !p.delivered(t, func() error { return p.qps[0].Send(1, 0, p.mrs[0].SGE(0, 8)) }) {
				t.Error("a message over a connection does not arrive")
			}
			p = openPair(t, verbstest.NewSimulatedNetwork(), verbs.QPConfig{Type: verbs.UD}, c.a, c.b)
			must(t, p.qps[0].Start())
			must(t, p.qps[1].Start())
			to, err := p.qps[0].DestWith(p.addresses(t)[1], params)
			must(t, err)
			if !p.delivered(t, func() error { return p.qps[0].SendTo(1, 0, to, p.mrs[0].SGE(0, 8)) }) {
				t.Error("a datagram does not arrive")
			}
		})
	}
}

// TestNoPath: ports that cannot reach each other are refused before anything is sent, with an error that names both.
func TestNoPath(t *testing.T) {
	for name, c := range map[string]struct {
		a, b verbstest.SimulatedPort
		want []string
	}{
		"link-local subnets": {infiniBand(4, 0, linkLocal, false), infiniBand(5, 0, site, false),
			[]string{"fe80::4", "fec0::5", "different subnets"}},
		"link layers": {infiniBand(4, 2, linkLocal, false), ethernet(1, "10.0.0.2", hw.GIDRoCEv2),
			[]string{"InfiniBand LID 4 to 7 fe80::4", "RoCE v2 ::ffff:10.0.0.2"}},
		"families": {ethernet(1, "10.0.0.1", hw.GIDRoCEv2), ethernet(1, "2001:db8::1", hw.GIDRoCEv2),
			[]string{"RoCE v2 ::ffff:10.0.0.1", "RoCE v2 2001:db8::1", "IPv4", "IPv6"}},
	} {
		p := openPair(t, verbstest.NewSimulatedNetwork(), verbs.QPConfig{Type: verbs.RC}, c.a, c.b)
		as := p.addresses(t)
		for i, q := range p.qps {
			err := q.Connect(as[1-i])
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %v, want %q", name, err, want)
				}
			}
			if again := as[i].CheckPath(as[1-i]); again == nil {
				t.Errorf("%s: CheckPath returns nil", name)
			}
		}
	}
}

// TestGIDIndex: the index chooses among GIDs with the same address, also one that is not chosen by rule. Two types of GIDs are an
// error, which names both.
func TestGIDIndex(t *testing.T) {
	table := ethernet(2, "10.0.0.1", hw.GIDRoCEv1)
	table.GIDs = append(table.GIDs, ethernet(3, "10.0.0.1", hw.GIDRoCEv2).GIDs...)
	one, other := table, ethernet(3, "10.0.0.2", hw.GIDRoCEv2)
	other.GIDs = append(other.GIDs, ethernet(4, "10.0.0.2", hw.GIDRoCEv1).GIDs...)
	p := openPair(t, verbstest.NewSimulatedNetwork(), verbs.QPConfig{Type: verbs.RC, GIDIndex: new(3)}, one, other)
	as := p.addresses(t)
	must(t, p.qps[0].Connect(as[1]))
	if a, err := p.qps[0].Query(verbs.AttrAH); err != nil || a.AH.SGIDIndex != 3 || as[0].GIDType != hw.GIDRoCEv2 {
		t.Errorf("index %d, type %v, %v", a.AH.SGIDIndex, as[0].GIDType, err)
	}
	old := openPair(t, verbstest.NewSimulatedNetwork(), verbs.QPConfig{Type: verbs.RC, GIDIndex: new(2)}, one, table)
	err := old.qps[0].Connect(as[1])
	if err == nil || !strings.Contains(err.Error(), "RoCE v1 ::ffff:10.0.0.1 to RoCE v2 ::ffff:10.0.0.2") {
		t.Errorf("two types of GIDs: %v", err)
	}
	bad := openPair(t, verbstest.NewSimulatedNetwork(), verbs.QPConfig{Type: verbs.RC, GIDIndex: new(9)}, one, other)
	if _, err := bad.qps[0].Address(); err == nil || !strings.Contains(err.Error(), "no GID with the index 9") {
		t.Errorf("an empty entry: %v", err)
	}
}

// TestAddressChanges: the address of a queue pair for datagrams, and its destinations, are those that the port has now. An
// address handle of before reaches nobody.
func TestAddressChanges(t *testing.T) {
	net := verbstest.NewSimulatedNetwork()
	p := openPair(t, net, verbs.QPConfig{Type: verbs.UD}, infiniBand(4, 0, linkLocal, true), infiniBand(5, 0, linkLocal, true))
	must(t, p.qps[0].Start())
	must(t, p.qps[1].Start())
	old, err := p.qps[0].Dest(p.addresses(t)[1])
	must(t, err)
	net.SetPort("b", infiniBand(9, 0, linkLocal, true))
	moved := infiniBand(4, 0, linkLocal, true)
	moved.GIDs[0].Index = 6
	net.SetPort("a", moved)
	if p.delivered(t, func() error { return p.qps[0].SendTo(1, 0, old, p.mrs[0].SGE(0, 8)) }) {
		t.Error("a datagram to a LID that no port has arrives")
	}
	fresh, err := p.qps[0].Dest(p.addresses(t)[1])
	must(t, err)
	if !p.delivered(t, func() error { return p.qps[0].SendTo(2, 0, fresh, p.mrs[0].SGE(0, 8)) }) {
		t.Error("a datagram to the new address does not arrive")
	}
}
