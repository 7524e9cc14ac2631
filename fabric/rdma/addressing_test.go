//go:build linux

package rdma

import (
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/verbs"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

// infiniBand returns an InfiniBand port in the default subnet.
func infiniBand(lid uint16, keys ...uint16) verbstest.SimulatedPort {
	return verbstest.SimulatedPort{LinkLayer: hw.LinkInfiniBand, LID: lid, PKeys: keys, MTU: verbs.MTU4096}
}

// roce returns a RoCE port with an address.
func roce(addr string, mtu verbs.MTU) verbstest.SimulatedPort {
	ip := netip.MustParseAddr(addr)
	return verbstest.SimulatedPort{MTU: mtu, GIDs: []hw.GID{
		{Index: 1, Addr: netip.AddrFrom16(ip.As16()), Type: hw.GIDRoCEv1, Netdev: "eth0"},
		{Index: 3, Addr: netip.AddrFrom16(ip.As16()), Type: hw.GIDRoCEv2, Netdev: "eth0"},
	}}
}

// openPorts opens a peer on each port, without connecting them.
func openPorts(t *testing.T, set Settings, ports ...verbstest.SimulatedPort) (*verbstest.SimulatedNetwork, []*domain) {
	t.Helper()
	net := verbstest.NewSimulatedNetwork()
	var key [32]byte
	rand.Read(key[:])
	var ds []*domain
	for i, p := range ports {
		name := "node" + strconv.Itoa(i)
		net.SetPort(name, p)
		set.Devices = []string{name}
		tr := &Transport{Key: key, Settings: set, Network: net.Node()}
		fd, err := tr.Open(t.Context(), &fabric.Config{Self: i, Size: len(ports)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := fd.Close(); err != nil {
				t.Error(err)
			}
		})
		d := fd.(*domain)
		d.cm.Resolver.Patience = time.Minute // so that the order of events does not depend on time
		ds = append(ds, d)
	}
	return net, ds
}

// meet connects the endpoints of two peers, and sends a message in both directions.
func meet(t *testing.T, a, b *domain) {
	t.Helper()
	for _, p := range [][2]*domain{{a, b}, {b, a}} {
		if _, err := p[0].Connect(p[1].self, p[1].Addr()); err != nil {
			t.Fatal(err)
		}
	}
	connectPeers(t, a, b)
	connectPeers(t, b, a)
}

// attr returns the attributes of the connection of a peer to another.
func attr(t *testing.T, d *domain, peer int) verbs.Attr {
	t.Helper()
	a, err := d.eps[peer].lanes.Queues[0].QP.Query(verbs.AttrAH | verbs.AttrPKeyIndex | verbs.AttrMTU)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestPartitions: two peers use a partition that both can use, by datagrams and by connections, wherever its key is in the tables
// of their ports. If there is none, the error names the partitions of both.
func TestPartitions(t *testing.T) {
	for name, c := range map[string]struct {
		a, b []uint16
		i, j uint16 // the indices of the key that they use
		none string
	}{
		"default":                      {a: []uint16{0xffff}, b: []uint16{0xffff}},
		"limited in the default":       {a: []uint16{0x7fff, 0x8001}, b: []uint16{0x8001, 0x7fff}, i: 1, j: 0},
		"the first one is not shared":  {a: []uint16{0x8003, 0, 0x8001}, b: []uint16{0x8002, 0x8001}, i: 2, j: 1},
		"full and limited":             {a: []uint16{0x8003, 0x7fff}, b: []uint16{0xffff}, i: 1, j: 0},
		"both limited":                 {a: []uint16{0x7fff}, b: []uint16{0x7fff}, none: "(limited); the peer in 0x7fff (limited)"},
		"different":                    {a: []uint16{0x8001}, b: []uint16{0x8002}, none: "0x8001; the peer in 0x8002"},
		"full in one, limited in both": {a: []uint16{0x8001, 2}, b: []uint16{2, 0x8001}, i: 0, j: 1},
	} {
		t.Run(name, func(t *testing.T) {
			_, ds := openPorts(t, Settings{}, infiniBand(4, c.a...), infiniBand(5, c.b...))
			if c.none != "" {
				var e *PartitionError
				_, err := ds[0].Connect(1, ds[1].Addr())
				if !errors.As(err, &e) || !errors.Is(err, fabric.ErrNotSupported) || !strings.Contains(err.Error(), c.none) {
					t.Errorf("%v, want %q", err, c.none)
				}
				return
			}
			meet(t, ds[0], ds[1])
			if i, j := attr(t, ds[0], 1).PKeyIndex, attr(t, ds[1], 0).PKeyIndex; i != c.i || j != c.j {
				t.Errorf("the keys at %d and %d are used, want %d and %d", i, j, c.i, c.j)
			}
		})
	}
}

// TestManyPartitions: one process talks to each of several peers in the only partition that the two have in common.
func TestManyPartitions(t *testing.T) {
	_, ds := openPorts(t, Settings{}, infiniBand(4, 0x8001, 0x8002, 0x8003), infiniBand(5, 0x8001), infiniBand(6, 0xffff, 0x8002),
		infiniBand(7, 3))
	for i := range ds[1:] {
		meet(t, ds[0], ds[i+1])
		meet(t, ds[i+1], ds[0])
		if got := attr(t, ds[0], i+1).PKeyIndex; int(got) != i {
			t.Errorf("with peer %d the key at %d is used, want %d", i+1, got, i)
		}
	}
}

// TestPartitionSetting: the setting chooses the partition, and its absence is an error that names the variable.
func TestPartitionSetting(t *testing.T) {
	_, ds := openPorts(t, Settings{PKey: 2}, infiniBand(4, 0x8001, 0x8002), infiniBand(5, 0x8002, 0x8001))
	meet(t, ds[0], ds[1])
	if i, j := attr(t, ds[0], 1).PKeyIndex, attr(t, ds[1], 0).PKeyIndex; i != 1 || j != 0 {
		t.Errorf("the keys at %d and %d are used", i, j)
	}
	net := verbstest.NewSimulatedNetwork()
	net.SetPort("a", infiniBand(4, 0x8001, 0, 0x7fff))
	tr := &Transport{Settings: Settings{Devices: []string{"a"}, PKey: 0x8003}, Network: net.Node()}
	_, err := tr.Open(t.Context(), &fabric.Config{Size: 2})
	for _, want := range []string{"IBRUN_RDMA_PKEY=0x8003", "0x8001, 0x7fff (limited)", "port 1"} {
		if !errors.Is(err, fabric.ErrNotSupported) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestAddressVectors: connections have what the ports and the settings require.
func TestAddressVectors(t *testing.T) {
	needsGRH, several, subnet := infiniBand(4), infiniBand(8), infiniBand(6)
	needsGRH.GRHRequired = true
	several.LMC = 2
	subnet.GIDs = []hw.GID{{Addr: verbstest.InfiniBandGID(0xfec0<<48|7, 6), Type: hw.GIDInfiniBand}}
	set := Settings{ServiceLevel: 3, TrafficClass: 106, MTU: 2048}
	_, ds := openPorts(t, set, needsGRH, several, infiniBand(5))
	meet(t, ds[0], ds[1])
	meet(t, ds[1], ds[2])
	a := attr(t, ds[0], 1)
	if !a.AH.GID.IsValid() || a.AH.LID != 8 || a.AH.SL != 3 || a.AH.TrafficClass != 106 || a.MTU != verbs.MTU2048 {
		t.Errorf("a port that requires a global route header: %+v", a)
	}
	if a := attr(t, ds[2], 1); a.AH.GID.IsValid() || a.AH.LID != 8 || a.AH.SL != 3 {
		t.Errorf("a port with several LIDs: %+v", a)
	}
	set = Settings{TrafficClass: 106, GIDIndex: new(1)}
	_, ds = openPorts(t, set, roce("10.0.0.1", verbs.MTU4096), roce("10.0.0.2", verbs.MTU1024))
	meet(t, ds[0], ds[1])
	a, b := attr(t, ds[0], 1), attr(t, ds[1], 0)
	if a.AH.TrafficClass != 106 || a.AH.SGIDIndex != 1 || a.MTU != verbs.MTU1024 || b.MTU != a.MTU {
		t.Errorf("RoCE: %+v and %+v", a, b)
	}
	for name, pair := range map[string][2]verbstest.SimulatedPort{
		"fe80::4, and that of the peer, InfiniBand LID 6 fec0:0:0:7::6, are in different": {infiniBand(4), subnet},
		"one is InfiniBand":        {infiniBand(4), roce("10.0.0.1", verbs.MTU1024)},
		"one is IPv4, the other I": {roce("10.0.0.1", verbs.MTU1024), roce("2001:db8::1", verbs.MTU1024)},
	} {
		if strings.HasPrefix(name, "fe80") {
			pair[0].GIDs = []hw.GID{{Addr: verbstest.InfiniBandGID(0xfec0<<48|4, 4), Type: hw.GIDInfiniBand}}
			name = strings.Replace(name, "fe80::4", "fec0:0:0:4::4", 1)
		}
		_, ds := openPorts(t, Settings{}, pair[0], pair[1])
		_, err := ds[0].Connect(1, ds[1].Addr())
		if !errors.Is(err, fabric.ErrNotSupported) || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %q", err, name)
		}
	}
}

// exchange polls two peers until a message from each has arrived at the other, whatever connections break meanwhile.
func exchange(t *testing.T, a, b *domain) {
	t.Helper()
	var sent, got [2]bool
	var evs [8]fabric.Event
	defer waittest.LogIfFailed(t, func() string { return fmt.Sprintf("sent %v, received %v", sent, got) })
	waittest.Poll(t, "a message from each peer arrives", func() bool {
		for i, d := range []*domain{a, b} {
			if !sent[i] {
				sent[i] = d.eps[[]*domain{b, a}[i].self].Send([]byte("message"), nil) == nil
			}
			n, err := d.Poll(evs[:])
			if err != nil {
				t.Fatal(err)
			}
			for _, ev := range evs[:n] {
				if ev.Kind != fabric.Message {
					t.Fatalf("%+v", ev)
				}
				got[i] = true
			}
		}
		return got[0] && got[1]
	})
}

// TestAddressChanges: after a change of the LID, the GID, the MAC address or the table of partition keys of one port, whether the
// device has reported it or not, the two peers exchange messages again. They would stay apart if one kept an old address handle.
func TestAddressChanges(t *testing.T) {
	moved := roce("10.0.0.2", verbs.MTU1024)
	moved.MAC = 7
	for name, c := range map[string]struct {
		a, b, after verbstest.SimulatedPort
		event       verbs.EventType
	}{
		"LID": {infiniBand(4, 0xffff), infiniBand(5, 0xffff), infiniBand(9, 0xffff), verbs.EventLIDChange},
		"GID": {roce("10.0.0.1", verbs.MTU1024), roce("10.0.0.2", verbs.MTU1024), roce("10.0.0.9", verbs.MTU1024),
			verbs.EventGIDChange},
		"MAC": {roce("10.0.0.1", verbs.MTU1024), roce("10.0.0.2", verbs.MTU1024), moved, verbs.EventGIDChange},
		"P_Key": {infiniBand(4, 0xffff, 0x8001), infiniBand(5, 0x8002, 0x8001), infiniBand(5, 0x8001, 0x8002),
			verbs.EventPKeyChange},
	} {
		for _, reported := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				net, ds := openPorts(t, Settings{Heartbeat: 20 * time.Second}, c.a, c.b)
				a, b := ds[0], ds[1]
				meet(t, a, b)
				net.SetPort("node1", c.after)
				if reported {
					net.RaiseEvent("node1", c.event)
				}
				exchange(t, a, b)
				if name != "MAC" && b.cm.Resolver.Revision == 0 {
					t.Error("the peer does not send its new address")
				}
			})
		}
	}
}

// TestAttributesInForce: Limits names the port, and of each attribute the value in force and where it comes from. A RoCE port has
// no partition.
func TestAttributesInForce(t *testing.T) {
	t.Setenv("IBRUN_RDMA_TRAFFIC_CLASS", "106")
	t.Setenv("IBRUN_RDMA_MTU", "4096")
	net := verbstest.NewSimulatedNetwork()
	net.SetPort("a", infiniBand(4, 0x7fff, 0x8001))
	net.SetPort("b", roce("10.0.0.1", verbs.MTU1024))
	l, err := (&Transport{Settings: Settings{PKey: 0x8001}, Network: net.Node("b")}).Limits()
	for name, want := range map[string]string{"devices": "b (nearest that work)",
		"P_Key": "0x8001, not used: RoCE has no partitions (Settings.PKey)"} {
		i := slices.IndexFunc(l.Attributes, func(a Attribute) bool { return a.Name == name })
		if err != nil || i < 0 || l.Attributes[i].Value+" ("+l.Attributes[i].Source+")" != want {
			t.Errorf("%s: %+v, %v, want %s", name, l.Attributes, err, want)
		}
	}
	for device, want := range map[string]string{
		"a": "port=a:1, InfiniBand LID 4 fe80::4 (device a), devices=a (Settings.Devices), GID index=0 (device a), " +
			"P_Key=0x8001, 0x7fff (limited) (device a), " +
			"service level=3 (Settings.ServiceLevel), traffic class=106 (IBRUN_RDMA_TRAFFIC_CLASS), path MTU=4096 (IBRUN_RDMA_MTU), " +
			"timeout=14 (67.1ms) (default), retries=7 (default), RNR retries=7 (default), rails=1 (default), " +
			"paths=1 (default), ",
		"b": "port=b:1, RoCE v2 ::ffff:10.0.0.1 (device b), devices=b (Settings.Devices), GID index=3 (device b), " +
			"service level=3 (Settings.ServiceLevel), traffic class=106 (IBRUN_RDMA_TRAFFIC_CLASS), path MTU=1024 (device b), " +
			"timeout=14 (67.1ms) (default), retries=7 (default), RNR retries=7 (default), rails=1 (default), " +
			"paths=1 (default), ",
	} {
		l, err := (&Transport{Settings: Settings{Devices: []string{device}, ServiceLevel: 3}, Network: net.Node()}).Limits()
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, a := range l.Attributes {
			got += a.Name + "=" + a.Value + " (" + a.Source + "), "
		}
		if got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

// TestSimulatedUnresolved: while the address of a silent peer cannot be resolved, it is tried few times, and the old handle is
// used.
func TestSimulatedUnresolved(t *testing.T) {
	net, ds := openPatient(t, 2)
	closeAtOnce(ds)
	a, b := ds[0], ds[1]
	connectPeers(t, a, b)
	a.cm.Resolver.Direct = true // only this goroutine makes address handles
	a.cm.Responder.Close()
	b.cm.Responder.Close()
	tries := refuseTimes(net, verbstest.CallCreateAH, math.MaxInt, syscall.ETIMEDOUT)
	net.DropDatagrams(func() bool { return true })
	breakConn(t, a, b)
	e := a.eps[1]
	waittest.Poll(t, "five intervals pass", func() bool {
		letPass(a)
		if got := pollTimes(t, a, 1); len(got) > 0 {
			t.Fatalf("%+v, %+v", got, e.retry)
		}
		return e.retry.silence.Intervals == 5
	})
	if *tries == 0 || *tries > 3 { // after 1, 2 and 4 intervals
		t.Errorf("within %d intervals the address was resolved %d times", e.retry.silence.Intervals, *tries)
	}
	if err := e.sendCM(cm.Probe, cm.QP{}); err != nil {
		t.Errorf("a datagram over the old handle: %v", err)
	}
}

// TestHandleRefused: two peers connect although the first address handles are refused. A port that cannot be queried keeps the
// address that is known.
func TestHandleRefused(t *testing.T) {
	for _, call := range []verbstest.SimulatedCall{verbstest.CallCreateAH, verbstest.CallQueryPort} {
		t.Run(call.String(), func(t *testing.T) {
			t.Parallel()
			net, ds := openPorts(t, Settings{Heartbeat: 20 * time.Second}, infiniBand(4, 0xffff), infiniBand(5, 0xffff))
			var refused atomic.Int32
			net.Refuse(func(c verbstest.SimulatedCall) error {
				if c == call && refused.Add(1) <= 3 {
					return syscall.ENOMEM
				}
				return nil
			})
			ds[0].cm.refreshAddress()
			for i, d := range ds {
				if _, err := d.Connect(1-i, ds[1-i].Addr()); err != nil {
					t.Fatal(err)
				}
			}
			exchange(t, ds[0], ds[1])
			if refused.Load() <= 3 || ds[0].cm.Resolver.Revision != 0 {
				t.Errorf("%d calls, revision %d", refused.Load(), ds[0].cm.Resolver.Revision)
			}
		})
	}
}
