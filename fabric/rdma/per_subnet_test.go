package rdma

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/verbs"
)

// networks is the Network of a node with these devices, whose IPv4 networks have 24 bits.
type networks []verbs.Device

func (n networks) Devices() ([]verbs.Device, error)  { return n, nil }
func (networks) Open(string) (*verbs.Context, error) { return nil, verbs.ErrNoDevice }
func (networks) Prefix(_ string, a netip.Addr) netip.Prefix {
	bits := 24
	if a.Unmap().As4()[1] == 254 {
		bits = 31
	}
	p, _ := a.Unmap().Prefix(bits)
	return p
}

// port returns an active port with an address: an IPv4 address of RoCE, or an InfiniBand GID.
func port(number int, gbits uint64, addr string, pkeys ...uint16) hw.RDMAPort {
	p := hw.RDMAPort{Number: number, State: hw.PortActive, Rate: gbits * 1e9, LinkLayer: hw.LinkEthernet, Netdev: "eth0",
		PKeys: pkeys}
	a := netip.MustParseAddr(addr)
	g := hw.GID{Addr: netip.AddrFrom16(a.As16()), Type: hw.GIDRoCEv2, Netdev: "eth0"}
	if a.Is6() {
		p.LinkLayer, p.Netdev, g.Type, g.Netdev = hw.LinkInfiniBand, "", hw.GIDInfiniBand, ""
	}
	p.GIDs = []hw.GID{g}
	return p
}

// node returns the network of a node that has a device a, b, c, ... for each element.
func node(devices ...[]hw.RDMAPort) networks {
	var n networks
	for i, ports := range devices {
		d := verbs.Device{}
		d.Name, d.Ports = string(rune('a'+i)), ports
		n = append(n, d)
	}
	return n
}

// TestPerSubnetSettings: a partition or a local address that the settings demand decides in which subnet a port is. A port
// without it is not used, and the first transport says why, unless no port has it.
func TestPerSubnetSettings(t *testing.T) {
	two := func(number int, first, second string) hw.RDMAPort {
		p, q := port(number, 100, first), port(number, 100, second)
		q.GIDs[0].Index = 1
		p.GIDs = append(p.GIDs, q.GIDs...)
		return p
	}
	nets := node([]hw.RDMAPort{two(1, "10.0.0.1", "10.0.1.1")}, []hw.RDMAPort{two(1, "10.0.2.1", "10.0.1.2")},
		[]hw.RDMAPort{port(1, 100, "10.0.3.1")})
	partitions := node([]hw.RDMAPort{port(1, 100, "fe80::1", 0x8001)}, []hw.RDMAPort{port(1, 100, "fe80::2", 0x8001, 0x8002)},
		[]hw.RDMAPort{port(1, 100, "fe80::3", 2)})
	for name, c := range map[string]struct {
		node      networks
		set       Settings
		want, why string
	}{
		"no index":     {nets, Settings{}, "a c b", ""},
		"index 1":      {nets, Settings{GIDIndex: new(1)}, "a/b", "device c cannot be used: GID: port 1 has none of index 1"},
		"index 5":      {nets, Settings{GIDIndex: new(5)}, "a c b", ""},
		"no partition": {partitions, Settings{}, "a c b", ""},
		"partition 2":  {partitions, Settings{PKey: 0x8002}, "b/c", "device a cannot be used: partition: port 1 is not in 0x8002"},
		"partition 3":  {partitions, Settings{PKey: 3}, "a/b/c", ""},
	} {
		ts, err := (&Transport{Network: c.node, Settings: c.set}).PerSubnet()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, one := range ts {
			var devices []string
			for ; one != nil; one = one.without(nil) {
				devices = append(devices, one.Settings.Devices...)
			}
			got = append(got, strings.Join(devices, "/"))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		err = errors.Join(ts[0].unfit...)
		if (err != nil) != (c.why != "") || err != nil && !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPerSubnet: a process opens one device of each subnet, the best first, at most three. Ports of one subnet, and ports
// that are connected by routes alone, count once.
func TestPerSubnet(t *testing.T) {
	one := func(p ...hw.RDMAPort) []hw.RDMAPort { return p }
	for name, c := range map[string]struct {
		node networks
		want string
		near []string
	}{
		"one device":                  {node(one(port(1, 100, "10.0.0.1"))), "a", nil},
		"two ports of one subnet":     {node(one(port(1, 100, "fe80::1"), port(2, 200, "fe80::2"))), "a:2", nil},
		"two fabrics":                 {node(one(port(1, 100, "10.0.0.1")), one(port(1, 200, "fe80::2"))), "b a", nil},
		"two fabrics on one device":   {node(one(port(1, 200, "fe80::2"), port(2, 100, "10.0.0.1"))), "a a:2", nil},
		"an assigned device is first": {node(one(port(1, 100, "10.0.0.1")), one(port(1, 200, "fe80::2"))), "a:1 b", []string{"a:1"}},
		"two InfiniBand subnets":      {node(one(port(1, 100, "fe80::1")), one(port(1, 100, "fec0::1"))), "a b", nil},
		"two partitions":              {node(one(port(1, 100, "fe80::1", 0x8001)), one(port(1, 9, "fe80::2", 0x8002, 0))), "a b", nil},
		"one partition":               {node(one(port(1, 100, "fe80::1", 0xffff)), one(port(1, 100, "fe80::2", 0x7fff))), "a", nil},
		"two IP networks":             {node(one(port(1, 100, "10.0.0.1")), one(port(1, 100, "10.0.1.1"))), "a b", nil},
		"point-to-point networks":     {node(one(port(1, 100, "10.254.0.1")), one(port(1, 100, "10.254.1.1"))), "a", nil},
		"more subnets than are opened": {node(one(port(1, 100, "10.0.1.1")), one(port(1, 100, "10.0.2.1")),
			one(port(1, 100, "10.0.3.1")), one(port(1, 25, "10.0.4.1")), one(port(1, 100, "fe80::1"))), "a e c", nil},
	} {
		ts, err := (&Transport{Network: c.node, Near: c.near}).PerSubnet()
		var got []string
		for _, one := range ts {
			got = append(got, one.Settings.Devices...)
		}
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, c.want)
		}
	}
	named := &Transport{Network: node(), Settings: Settings{Devices: []string{"x", "y"}}}
	if ts, err := named.PerSubnet(); err != nil || len(ts) != 1 || !slices.Equal(ts[0].Settings.Devices, named.Settings.Devices) {
		t.Errorf("named devices: %v, %v", ts, err)
	}
	if _, err := (&Transport{Network: node()}).PerSubnet(); !errors.Is(err, verbs.ErrNoDevice) {
		t.Errorf("no device: %v", err)
	}
}
