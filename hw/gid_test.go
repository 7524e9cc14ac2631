package hw_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/hw"
)

// gidTable parses GIDs from lines "address type netdev". The type is v1, v2 or IB. "-" is an empty entry. "!" before the
// netdev means another network namespace.
func gidTable(lines ...string) []hw.GID {
	types := map[string]hw.GIDType{"v1": hw.GIDRoCEv1, "v2": hw.GIDRoCEv2, "IB": hw.GIDInfiniBand}
	var gids []hw.GID
	for i, line := range lines {
		if line == "-" {
			continue
		}
		f := append(strings.Fields(line), "")
		netdev, otherNetns := strings.CutPrefix(f[2], "!")
		addr := netip.AddrFrom16(netip.MustParseAddr(f[0]).As16())
		gids = append(gids, hw.GID{Index: i, Addr: addr, Type: types[f[1]], Netdev: netdev, OtherNetns: otherNetns})
	}
	return gids
}

func rocePort(lines ...string) hw.RDMAPort {
	return hw.RDMAPort{LinkLayer: hw.LinkEthernet, Netdev: "eth0", GIDs: gidTable(lines...)}
}

func TestChooseGID(t *testing.T) {
	all := rocePort("fe80::1 v1 eth0", "fe80::1 v2 eth0", "2001:db8::1 v1 eth0", "2001:db8::1 v2 eth0",
		"10.0.0.1 v1 eth0", "10.0.0.1 v2 eth0", "10.7.0.1 v1 eth0.7", "10.7.0.1 v2 eth0.7", "10.0.0.2 v2 eth0")
	ib := hw.RDMAPort{LinkLayer: hw.LinkInfiniBand, Netdev: "ib0", GIDs: gidTable("-", "fe80::aa IB", "fec0::bb IB")}
	for _, c := range []struct {
		name string
		port hw.RDMAPort
		req  hw.GIDRequest
		want string // index and reason
	}{
		{"IPv4 on the port's interface", all, hw.GIDRequest{}, "5 the IPv4 address of eth0"},
		{"IPv6", all, hw.GIDRequest{Family: hw.FamilyIPv6}, "3 the IPv6 address of eth0"},
		{"link-local, requested", all, hw.GIDRequest{Family: hw.FamilyLinkLocal}, "1 the link-local IPv6 address of eth0"},
		{"a VLAN, requested", all, hw.GIDRequest{Netdev: "eth0.7"}, "7 the IPv4 address of eth0.7, on top of eth0"},
		{"IPv6 of the port before IPv4 of a VLAN", rocePort("10.7.0.1 v2 eth0.7", "2001:db8::1 v2 eth0"), hw.GIDRequest{},
			"1 the IPv6 address of eth0"},
		{"IPv4 of a VLAN before link-local", rocePort("fe80::1 v2 eth0", "10.7.0.1 v2 eth0.7"), hw.GIDRequest{},
			"1 the IPv4 address of eth0.7, on top of eth0"},
		{"IPv4 before IPv6 on VLANs", rocePort("fd00::1 v2 eth0.7", "10.7.0.1 v2 eth0.8"), hw.GIDRequest{},
			"1 the IPv4 address of eth0.8, on top of eth0"},
		{"link-local when there is no other", rocePort("fe80::1 v1 eth0", "fe80::1 v2 eth0"), hw.GIDRequest{},
			"1 the link-local IPv6 address of eth0"},
		{"not of another namespace", rocePort("10.0.0.1 v2 !eth0", "10.5.0.1 v2 net1"), hw.GIDRequest{},
			"1 the IPv4 address of net1, on top of eth0"},
		{"interface unknown", rocePort("10.0.0.1 v2"), hw.GIDRequest{}, "0 the IPv4 address"},
		{"whatever the order of the table", hw.RDMAPort{LinkLayer: hw.LinkEthernet, Netdev: "eth0", GIDs: []hw.GID{
			gidTable("-", "-", "10.0.0.2 v2 eth0")[0], gidTable("-", "10.0.0.1 v2 eth0")[0]}}, hw.GIDRequest{},
			"1 the IPv4 address of eth0"},
		{"InfiniBand", ib, hw.GIDRequest{}, "1 the port's GUID in its subnet"},
		{"InfiniBand by its interface", ib, hw.GIDRequest{Netdev: "ib0", Family: hw.FamilyIB}, "1 the port's GUID in its subnet"},
	} {
		got, err := c.port.ChooseGID(c.req)
		if s := fmt.Sprint(got.Index, " ", got.Reason); err != nil || s != c.want {
			t.Errorf("%s: chose %q, %v; want %q", c.name, s, err, c.want)
		}
	}
}

func TestChooseGIDRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		port hw.RDMAPort
		req  hw.GIDRequest
		want string
	}{
		{"empty", rocePort(), hw.GIDRequest{},
			"hw: no usable GID: the table is empty; is the interface up, and does it have an address?"},
		{"every reason", rocePort("fe80::1 v1 eth0", "10.0.0.1 v2 !eth0", "10.7.0.1 v2 eth0.7", "2001:db8::1 v2 eth0"),
			hw.GIDRequest{Netdev: "eth0", Family: hw.FamilyIPv4},
			"hw: no usable GID of family IPv4 on eth0: [0] fe80::1 RoCE v1 eth0: is RoCE v1, which cannot be routed; " +
				"[1] ::ffff:10.0.0.1 RoCE v2 eth0: eth0 is in another network namespace; " +
				"[2] ::ffff:10.7.0.1 RoCE v2 eth0.7: is not an address of eth0; " +
				"[3] 2001:db8::1 RoCE v2 eth0: is IPv6, not IPv4"},
		{"a type of the future", rocePort("10.0.0.1 v3 eth0"), hw.GIDRequest{},
			"hw: no usable GID: [0] ::ffff:10.0.0.1  eth0: is of an unknown type"},
		{"a long table", hw.RDMAPort{LinkLayer: hw.LinkEthernet, GIDs: []hw.GID{{Index: 256, Addr: netip.MustParseAddr("2001:db8::1"),
			Type: hw.GIDRoCEv2, Netdev: "eth0"}}}, hw.GIDRequest{},
			"hw: no usable GID: [256] 2001:db8::1 RoCE v2 eth0: its index is above 255, so that no connection can name it"},
		{"iWARP", rocePort("5254:12:3456:: IB"), hw.GIDRequest{},
			"hw: no usable GID: [0] 5254:12:3456:: IB: is an iWARP GID; iWARP peers are addressed by IP"},
		{"EFA", hw.RDMAPort{LinkLayer: hw.LinkUnknown, GIDs: gidTable("fe80::1 IB")}, hw.GIDRequest{},
			`hw: no usable GID: [0] fe80::1 IB: peers are not addressed by GID on link layer "Unknown"`},
		{"InfiniBand has no IPv4", hw.RDMAPort{LinkLayer: hw.LinkInfiniBand, GIDs: gidTable("fe80::1 IB")},
			hw.GIDRequest{Family: hw.FamilyIPv4},
			"hw: no usable GID of family IPv4: [0] fe80::1 IB: is InfiniBand, not IPv4"},
		{"RoCE on InfiniBand", hw.RDMAPort{LinkLayer: hw.LinkInfiniBand, GIDs: gidTable("fe80::1 v2")}, hw.GIDRequest{},
			"hw: no usable GID: [0] fe80::1 RoCE v2: is not of type IB, the only one of InfiniBand"},
	} {
		got, err := c.port.ChooseGID(c.req)
		if err == nil || err.Error() != c.want {
			t.Errorf("%s: chose %v, error\n%v\nwant\n%s", c.name, got, err, c.want)
		}
		var refused *hw.GIDError
		if !errors.As(err, &refused) || len(refused.Refused) != len(c.port.GIDs) {
			t.Errorf("%s: the error does not name every entry: %#v", c.name, refused)
		}
	}
}

// The choice within a family is the same as the choice when that family is requested.
func TestGIDChoices(t *testing.T) {
	port := rocePort("fe80::1 v2 eth0", "2001:db8::1 v2 eth0", "2001:db8::2 v2 eth0", "10.0.0.1 v2 eth0", "10.0.0.2 v2 eth0")
	var indices []int
	for _, c := range port.GIDChoices(hw.GIDRequest{}) {
		indices = append(indices, c.Index)
		if same, err := port.ChooseGID(hw.GIDRequest{Family: c.Family()}); err != nil || same != c {
			t.Errorf("among all families %v, requested %v, %v", c, same, err)
		}
	}
	if want := []int{3, 1, 0}; !slices.Equal(indices, want) {
		t.Errorf("choices by family are %v, want %v", indices, want)
	}
}

// Reads the trees of testdata and chooses a GID.
func TestChooseGIDOfTrees(t *testing.T) {
	for _, c := range []struct {
		tree, device string
		want         int // -1 for none
	}{
		{"mlx5-roce.txtar", "mlx5_0", 3},
		{"mlx5-roce.txtar", "mlx5_1", 1},
		{"mlx-ib.txtar", "mlx5_0", 0},
		{"bond-vlan-pod.txtar", "mlx5_bond_0", 3},
		{"bond-vlan-pod.txtar", "mlx5_4", 3},
		{"rxe.txtar", "rxe0", 1},
		{"siw.txtar", "siw0", -1},
		{"efa.txtar", "rdmap0s6", -1},
		{"unreadable.txtar", "irdma0", 0},
		{"old-kernel.txtar", "mlx4_0", -1},
	} {
		devices := readRDMA(t, c.tree)
		at := slices.IndexFunc(devices, func(d hw.RDMADevice) bool { return d.Name == c.device })
		if at < 0 {
			t.Errorf("%s has no %s", c.tree, c.device)
			continue
		}
		got, err := devices[at].Ports[0].ChooseGID(hw.GIDRequest{})
		if err != nil {
			got.Index = -1
		}
		if got.Index != c.want {
			t.Errorf("%s of %s: chose %v, %v; want index %d", c.device, c.tree, got, err, c.want)
		}
	}
}
