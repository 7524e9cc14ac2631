package doctor

import (
	"encoding/json"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/hw"
)

// partitions makes the port one of InfiniBand with these keys.
func partitions(keys ...uint16) func(*Host) {
	return func(h *Host) { infiniBand(h); h.port().PKeys = keys }
}

// addPort adds a device with one port.
func addPort(change func(p *hw.RDMAPort)) func(*Host) {
	return func(h *Host) {
		d := h.Top.RDMA[0]
		d.Name, d.Ports = "mlx5_1", slices.Clone(d.Ports)
		d.Ports[0].GIDs = slices.Clone(d.Ports[0].GIDs)
		change(&d.Ports[0])
		h.Top.RDMA = append(h.Top.RDMA, d)
		h.MTUs["mlx5_1/1"] = PortMTU{4096, 4096}
		h.Networks["mlx5_1/1"] = netip.MustParsePrefix("10.0.1.0/24")
	}
}

// both applies several changes.
func both(changes ...func(*Host)) func(*Host) {
	return func(h *Host) {
		for _, c := range changes {
			c(h)
		}
	}
}

// noInterface leaves no network interface for TCP.
func noInterface(h *Host) { h.InterfacesErr = errors.New("the reason") }

func env(name, value string) func(*Host) { return func(h *Host) { h.env(name, value) } }

// peerPorts sets the ports of the peer.
func peerPorts(ports ...portSummary) func(*Host) { return func(h *Host) { h.Peers[0].Ports = ports } }

func toInfiniBand(p *hw.RDMAPort) {
	p.LinkLayer, p.LID, p.SMLID, p.PKeys = hw.LinkInfiniBand, 3, 1, []uint16{0xffff}
	p.GIDs = []hw.GID{{Addr: netip.MustParseAddr("fe80::1"), Type: hw.GIDInfiniBand}}
}

func brokenFabric() []broken {
	ib := portSummary{Port: "mlx5_0/1", Layer: hw.LinkInfiniBand, Subnet: "fe80::/64", PKeys: []uint16{0x7fff}, MTU: 4096}
	otherSubnet := addPort(func(p *hw.RDMAPort) {
		toInfiniBand(p)
		p.GIDs[0].Addr = netip.MustParseAddr("fec0:1::1")
	})
	rails := func(h *Host) {
		for i := range 3 {
			addPort(func(*hw.RDMAPort) {})(h)
			name := "mlx5_" + string(rune('1'+i))
			h.Top.RDMA[i+1].Name = name
			h.Networks[name+"/1"] = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 1, byte(i), 0}), 24)
		}
	}
	unusable := func(h *Host) { h.dev().Type = hw.NodeRNIC }
	return []broken{
		{"verbs.device", unusable, Info, "type RNIC, which ibrun does not support", ""},
		{"verbs.device", func(h *Host) { unusable(h); h.dev().Provider = "irdma" }, Info, "type RNIC", "enable_roce"},
		{"port.partition", partitions(0xffff), OK, "0xffff", ""},
		{"port.partition", partitions(0x7fff, 0x8001), OK, "0x7fff, 0x8001", ""},
		{"port.partition", partitions(0x7fff, 0, 0x0001), Warning, "a limited member of all its partitions: 0x7fff, 0x0001", "=full"},
		{"port.partition", both(partitions(), refused), Warning, "in no partition", "=full"},
		{"port.partition", partitions(), Info, "the partitions of mlx5_0/1 are unknown", ""},
		{"port.partition", both(partitions(), func(h *Host) { h.Live = false }), Info, "unknown", ""},
		{"port.partition", both(partitions(0xffff, 0x8001), env("IBRUN_RDMA_PKEY", "0x8005")), Warning,
			"IBRUN_RDMA_PKEY=0x8005, but mlx5_0/1 is in the partitions 0xffff, 0x8001", "unset IBRUN_RDMA_PKEY"},
		{"port.partition", both(partitions(0xffff, 0x0001), env("IBRUN_RDMA_PKEY", "0x8001")), Warning,
			"IBRUN_RDMA_PKEY=0x8001, and mlx5_0/1 is a limited member", "=full"},
		{"port.partition", both(partitions(0xffff, 0x8001), env("IBRUN_RDMA_PKEY", "1")), OK, "0x8001", ""},
		{"port.partition", env("IBRUN_RDMA_PKEY", "0"), Info, "unknown", ""},
		{"port.partition", unusable, Info, "no active RDMA port", ""},
		{"port.fabric", addPort(toInfiniBand), Warning, "InfiniBand (mlx5_1/1) and Ethernet (mlx5_0/1)",
			"export IBRUN_RDMA_DEVICES=mlx5_1:1"},
		{"port.fabric", both(addPort(toInfiniBand), env("IBRUN_RDMA_DEVICES", "mlx5_1")), OK, "IBRUN_RDMA_DEVICES", ""},
		{"port.fabric", both(partitions(0xffff), otherSubnet), Warning,
			"InfiniBand subnet fe80::/64: mlx5_0/1; InfiniBand subnet fec0:1::/64: mlx5_1/1", "IBRUN_RDMA_DEVICES"},
		{"port.fabric", addPort(func(*hw.RDMAPort) {}), Info, "IP network 10.0.0.0/24: mlx5_0/1; IP network 10.0.1.0/24: mlx5_1/1",
			"IBRUN_RDMA_DEVICES"},
		{"port.fabric", rails, Warning, "4 subnets", "IBRUN_RDMA_DEVICES"},
		{"port.fabric", unusable, Info, "no active RDMA port", ""},
		{"reach.fabric", peerPorts(ib), Warning, "this host has mlx5_0/1 (RoCE, addresses IPv4), node2 has mlx5_0/1 (InfiniBand " +
			"subnet fe80::/64, partitions 0x7fff): no two of them reach each other", "one network"},
		{"reach.fabric", both(partitions(0x7fff), peerPorts(ib)), Warning, "no two of them", "one network"},
		{"reach.fabric", both(partitions(0xffff), peerPorts(ib)), OK, "same kind of network", ""},
		{"reach.fabric", peerPorts(portSummary{Layer: hw.LinkEthernet, Families: []hw.Family{hw.FamilyIPv6}}), Warning, "IPv6",
			"address"},
		{"reach.fabric", peerPorts(), Warning, "node2 has no RDMA port that ibrun can use", "ibrun doctor"},
		{"reach.fabric", both(peerPorts(), unusable), OK, "neither", ""},
		{"reach.fabric", func(h *Host) { h.Peers[0].PortsErr = errors.New("the reason") }, Info, "unknown: the reason", ""},
		{"mtu.hosts", func(h *Host) { h.Peers[0].PortsErr = errors.New("the reason") }, Info, "unknown: the reason", ""},
		{"mtu.hosts", peerPorts(), Info, "no port to compare", ""},
		{"mtu.hosts", func(h *Host) { h.Peers[0].Ports[0].MTU = 1024 }, Warning,
			"mlx5_0/1 has an active MTU of 4096, and mlx5_0/1 of node2 one of 1024", "mtu 9000"},
	}
}

func brokenSettings() []broken {
	mtus := func(active, interfaceMTU int) func(*Host) {
		return func(h *Host) {
			h.MTUs["mlx5_0/1"] = PortMTU{active, 4096}
			h.Top.Netdevs[0].MTU = interfaceMTU
		}
	}
	captured := func(h *Host) { h.Live = false }
	v1 := func(h *Host) {
		h.port().GIDs = append(h.port().GIDs, hw.GID{Index: 2, Addr: h.port().GIDs[0].Addr, Type: hw.GIDRoCEv1})
	}
	return []broken{
		{"mtu.active", mtus(4096, 1500), Warning, "an active MTU of 4096, and its interface eth2 an MTU of 1500", "eth2 up"},
		{"mtu.active", mtus(1024, 9000), Warning, "an active MTU of 1024", "ip link set eth2 down"},
		{"mtu.active", mtus(1024, 1500), OK, "1024", ""},
		{"mtu.active", mtus(4096, 4192), OK, "4192", ""},
		{"mtu.active", func(h *Host) { delete(h.MTUs, "mlx5_0/1") }, Info, "unknown", ""},
		{"mtu.active", captured, Info, "captured", ""},
		{"mtu.active", infiniBand, OK, "4096", ""},
		{"mtu.active", func(h *Host) { h.Top.RDMA = nil }, Info, "no active", ""},
		{"mtu.setting", both(env("IBRUN_RDMA_MTU", "4096"), mtus(1024, 1500)), Warning, "IBRUN_RDMA_MTU=4096, but mlx5_0/1", "unset"},
		{"mtu.setting", env("IBRUN_RDMA_MTU", "1024"), OK, "1024", ""},
		{"mtu.setting", env("IBRUN_RDMA_MTU", "1500"), Info, "1500", ""},
		{"mtu.setting", captured, Info, "captured", ""},
		{"settings.valid", env("IBRUN_RDMA_TIMEOUT", "0"), Error, `IBRUN_RDMA_TIMEOUT="0": want a number from 1 to 31`, "unset"},
		{"settings.valid", env("IBRUN_RDMA_SLOT", "-1"), Error, "IBRUN_RDMA_SLOT", "unset"},
		{"settings.valid", env("IBRUN_HEARTBEAT", "0s"), Error, "IBRUN_HEARTBEAT", "unset"},
		{"settings.valid", env("IBRUN_SHM_STORES", "fast"), Error, "IBRUN_SHM_STORES", "unset"},
		{"settings.valid", captured, Info, "captured", ""},
		{"settings.netdev", func(h *Host) { h.UnusedInterfaces = []string{"nosuch0 is not used"} }, Warning, "nosuch0 is not used",
			"unset IBRUN_TCP_INTERFACES"},
		{"settings.valid", env("IBRUN_VERBS_PROVIDER", "nosuch"), Error,
			"IBRUN_VERBS_PROVIDER: verbs: open: invalid argument: unknown provider nosuch; choose rxe or libibverbs", "unset"},
		{"settings.valid", env("IBRUN_TRANSPORT", "bogus"), Error, `IBRUN_TRANSPORT: unknown transport "bogus"`, "unset"},
		{"settings.valid", env("IBRUN_TCP_INTERFACES", "^"), Error, "IBRUN_TCP_INTERFACES: ", "unset"},
		{"settings.netdev", noInterface, Error, "the reason", "ip link set NAME up"},
		{"settings.netdev", both(noInterface, env("IBRUN_TCP_INTERFACES", "nosuch0")), Error, "the reason",
			"unset IBRUN_TCP_INTERFACES   # or name interfaces that ip address shows"},
		{"settings.netdev", both(noInterface, env("IBRUN_TRANSPORT", "bogus")), Info, "a setting is invalid", ""},
		{"settings.netdev", both(noInterface, env("IBRUN_HEARTBEAT", "x")), Info, "a setting is invalid", ""},
		{"settings.netdev", both(noInterface, env("IBRUN_TCP_INTERFACES", "^")), Info, "a setting is invalid", ""},
		{"settings.netdev", captured, Info, "captured", ""},
		{"settings.timeout", env("IBRUN_RDMA_TIMEOUT", "24"), Error, "a device sends again after 1m8.71948s",
			"unset IBRUN_RDMA_TIMEOUT"},
		{"settings.timeout", env("IBRUN_RDMA_TIMEOUT", "20"), Warning,
			"7 times, which takes 34.35976s; a peer that is silent for 15s", "unset"},
		{"settings.timeout", both(env("IBRUN_RDMA_TIMEOUT", "20"), env("IBRUN_HEARTBEAT", "60s")), OK, "1m0s", ""},
		{"settings.timeout", env("IBRUN_RDMA_TIMEOUT", "5"), Warning, "130µs", "unset"},
		{"settings.timeout", env("IBRUN_RDMA_RNR_RETRIES", "1"), Warning, "IBRUN_RDMA_RNR_RETRIES=1", "unset IBRUN_RDMA_RNR_RETRIES"},
		{"settings.timeout", env("IBRUN_RDMA_TIMEOUT", "x"), Info, "invalid", ""},
		{"settings.timeout", captured, Info, "captured", ""},
		{"settings.gid", env("IBRUN_RDMA_GID_INDEX", "9"), Warning, "IBRUN_RDMA_GID_INDEX=9, and mlx5_0/1 has no address", "unset"},
		{"settings.gid", env("IBRUN_RDMA_GID_INDEX", "3"), Info, "::ffff:10.0.0.1 there", "unset"},
		{"settings.gid", both(v1, env("IBRUN_RDMA_GID_INDEX", "2")), Warning, "a RoCE v1 address", "unset"},
		{"settings.gid", both(env("IBRUN_RDMA_GID_INDEX", "3"), func(h *Host) { h.port().GIDs[0].OtherNetns = true }), Warning,
			"another network namespace", "unset"},
		{"settings.gid", both(env("IBRUN_RDMA_GID_INDEX", "3"), func(h *Host) { h.Top.RDMA = nil }), Info, "no active", ""},
		{"settings.gid", env("IBRUN_RDMA_GID_INDEX", "x"), Info, "want", ""},
		{"settings.gid", captured, Info, "captured", ""},
	}
}

func brokenPriorities() []broken {
	pfc := func(lossless uint8, dscp map[uint8]uint8) func(*Host) {
		return func(h *Host) {
			h.FlowControl = func(string) (flowControl, bool, error) { return flowControl{lossless, dscp}, true, nil }
		}
	}
	class := func(text string) func(*Host) { return env("IBRUN_RDMA_TRAFFIC_CLASS", text) }
	return []broken{
		{"flow.pfc", class(""), Warning, "eth2 has priority flow control on priority 3, but the traffic class is 0",
			"export IBRUN_RDMA_TRAFFIC_CLASS=106"},
		{"flow.pfc", both(class(""), pfc(1<<3, map[uint8]uint8{10: 3})), Warning, "priority 3", "IBRUN_RDMA_TRAFFIC_CLASS=42"},
		{"flow.pfc", both(class(""), pfc(1, nil)), OK, "the traffic class is 0", ""},
		{"flow.pfc", both(class(""), env("IBRUN_RDMA_SL", "3")), OK, "IBRUN_RDMA_SL=3", ""},
		{"flow.pfc", both(class(""), pfc(0, nil)), Warning, "eth2 has priority flow control on no priority", "dcb pfc set dev eth2"},
		{"flow.pfc", pfc(0, nil), Warning, "IBRUN_RDMA_TRAFFIC_CLASS=106, but eth2 has priority flow control on no", "dcb pfc"},
		{"flow.pfc", pfc(1<<3, map[uint8]uint8{26: 4, 24: 3}), Warning, "on priority 3 only", "IBRUN_RDMA_TRAFFIC_CLASS=98"},
		{"flow.pfc", pfc(1<<3, map[uint8]uint8{24: 3}), Warning, "on priority 3 only", "IBRUN_RDMA_TRAFFIC_CLASS=98"},
		{"flow.pfc", pfc(1<<3, map[uint8]uint8{26: 3}), OK, "IBRUN_RDMA_TRAFFIC_CLASS=106", ""},
		{"flow.pfc", class("256"), Info, "unknown", ""},
		{"flow.pfc", func(h *Host) {
			h.FlowControl = func(string) (flowControl, bool, error) { return flowControl{}, false, errDCB }
		}, Info, "cut short", ""},
		{"flow.pfc", func(h *Host) { // the interface is a bond, and only one of its members has PFC
			h.port().Netdev = "bond0"
			h.Top.Netdevs = append(h.Top.Netdevs, hw.Netdev{Name: "a", Master: "bond0"}, hw.Netdev{Name: "b", Master: "bond0"})
			h.FlowControl = func(name string) (flowControl, bool, error) {
				return flowControl{lossless: map[string]uint8{"a": 1 << 3}[name]}, name != "bond0", nil
			}
		}, Warning, "bond0 has priority flow control on no priority", "dcb pfc"},
	}
}

// The list of ports that a host prints is what another host reads.
func TestSummaries(t *testing.T) {
	h := healthy()
	addPort(toInfiniBand)(h)
	line, err := json.Marshal(h.summaries())
	if err != nil {
		t.Fatal(err)
	}
	got, err := parseSummaries(string(line))
	if err != nil || len(got) != 2 || got[0].String() != "mlx5_0/1 (RoCE, addresses IPv4)" ||
		got[1].String() != "mlx5_1/1 (InfiniBand subnet fe80::/64, partitions 0xffff)" {
		t.Errorf("%s was read as %v, %v", line, got, err)
	}
	for _, bad := range []string{"", "{}", "[{]",
		strings.Repeat(" ", maxSummaryBytes+1), "[" + strings.Repeat("{},", maxSummaries) + "{}]"} {
		if got, err := parseSummaries(bad); err == nil {
			t.Errorf("%.40q was read as %v", bad, got)
		}
	}
}

func FuzzSummaries(f *testing.F) {
	f.Add(`[{"port":"mlx5_0/1","layer":"InfiniBand","subnet":"fe80::/64","pkeys":[65535],"mtu":4096}]`)
	f.Add(`[{"port":"a\u001b[2J","layer":"Ethernet","families":["IPv4"]}]`)
	f.Fuzz(func(t *testing.T, line string) {
		list, err := parseSummaries(line)
		if err != nil {
			return
		}
		if text := summaryList(list); len(text) > 64<<10 ||
			strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			t.Fatalf("%q was read as %q", line, text)
		}
		for _, a := range list {
			for _, b := range list {
				if a.reaches(b) != b.reaches(a) {
					t.Fatalf("%v and %v reach each other only in one direction", a, b)
				}
			}
		}
	})
}
