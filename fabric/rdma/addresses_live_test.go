//go:build linux

package rdma

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/verbs"
)

// gidIndex returns the index of the GID of a device that has an address.
func (w *wire) gidIndex(end int, addr string) *int {
	w.t.Helper()
	dev, err := verbs.Open(w.devices[end], verbs.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	defer dev.Close()
	gids, err := dev.GIDs(1)
	i := slices.IndexFunc(gids, func(g hw.GID) bool { return g.Addr.Unmap() == netip.MustParseAddr(addr) })
	if err != nil || i < 0 {
		w.t.Fatalf("%s has no GID %s: %v, %v", w.devices[end], addr, gids, err)
	}
	return &gids[i].Index
}

// linkLocal returns the link-local address of an end of the wire.
func (w *wire) linkLocal(end int) string {
	w.t.Helper()
	dev, err := verbs.Open(w.devices[end], verbs.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	defer dev.Close()
	gids, err := dev.GIDs(1)
	i := slices.IndexFunc(gids, func(g hw.GID) bool { return g.Addr.IsLinkLocalUnicast() })
	if err != nil || i < 0 {
		w.t.Fatalf("%s has no link-local GID: %v, %v", w.devices[end], gids, err)
	}
	return gids[i].Addr.String()
}

// check exchanges messages, and compares the addresses of the packets on the wire. Their traffic class is the default.
func (w *wire) check(what string, p *localPeers, addrs [2]string) {
	w.t.Helper()
	captures := [2]*capture{w.capture(0), w.capture(1)}
	p.exchange(10)
	for end, c := range captures {
		all := c.take()
		for _, k := range all {
			if k.from != netip.MustParseAddr(addrs[1-end]) || k.to != netip.MustParseAddr(addrs[end]) || k.class != 0 {
				w.t.Fatalf("%s: received by end %d: %+v, want packets of class 0 between %v", what, end, k, addrs)
			}
		}
		if len(all) == 0 {
			w.t.Fatalf("%s: end %d has received no packet", what, end)
		}
	}
}

// TestLiveAddresses: ports with several addresses use the first IPv4 address, or the one whose index is set. The index differs
// between the ends. Both ends agree: the packets on the wire have these addresses.
func TestLiveAddresses(t *testing.T) {
	w := newWire(t)
	w.addDevices()
	local := [2]string{w.linkLocal(0), w.linkLocal(1)}
	open := func(what string, addrs [2]string, indices [2]*int) {
		t.Helper()
		t.Run(what, func(t *testing.T) {
			sets := w.settings()
			sets[0].GIDIndex, sets[1].GIDIndex = indices[0], indices[1]
			w.check(what, openPeersOn(t, sets), addrs)
		})
	}
	open("without others, link-local", local, [2]*int{})
	w.address(0, "fd00:98::1/64")
	w.address(1, "fd00:98::2/64")
	open("a global one rather than link-local", [2]string{"fd00:98::1", "fd00:98::2"}, [2]*int{})
	w.address(0, "10.98.0.1/24")
	w.differentFamilies(t)
	for end, prefixes := range [2][]string{
		{"10.98.1.1/24", "fd00:99::1/64"},
		{"10.98.1.2/24", "10.98.0.2/24", "fd00:97::2/64", "fd00:99::2/64"},
	} {
		for _, p := range prefixes {
			w.address(end, p)
		}
	}
	open("the first of IPv4", [2]string{"10.98.0.1", "10.98.1.2"}, [2]*int{})
	for _, addrs := range [][2]string{{"10.98.1.1", "10.98.0.2"}, {"fd00:99::1", "fd00:99::2"}, local} {
		open("by index "+addrs[0], addrs, [2]*int{w.gidIndex(0, addrs[0]), w.gidIndex(1, addrs[1])})
	}
}

// differentFamilies: one end has an IPv4 address, the other has not. Both ends refuse the pair by the same typed error.
func (w *wire) differentFamilies(t *testing.T) {
	t.Helper()
	t.Run("of different families", func(t *testing.T) {
		d := openDomainsOn(t, w.settings())
		for i := range d {
			_, err := d[i].Connect(1-i, d[1-i].Addr())
			if !errors.Is(err, verbs.ErrInvalid) || !strings.Contains(fmt.Sprint(err), "same family") {
				t.Errorf("peer %d: %v", i, err)
			}
		}
	})
}

// TestLiveAddressChange: an address is added to a port and removed while messages are exchanged. A further one changes nothing.
// When the one in use is removed, the connection is made again by the other one; no message is lost or delivered twice.
func TestLiveAddressChange(t *testing.T) {
	w := newWire(t)
	w.address(0, "10.98.0.1/24")
	w.address(1, "10.98.0.2/24")
	w.addDevices()
	p := openPeersOn(t, w.settings())
	w.check("at first", p, [2]string{"10.98.0.1", "10.98.0.2"})
	before := p.d[0].eps[1].conn.Epoch
	p.during(func() error { return tryIP("addr add 10.98.0.3/24 dev " + w.netdevs[0]) })
	w.gidIndex(0, "10.98.0.3")
	w.check("with another one", p, [2]string{"10.98.0.1", "10.98.0.2"})
	if now := p.d[0].eps[1].conn.Epoch; now != before {
		t.Errorf("the connection was made again: epoch %d, was %d", now, before)
	}
	p.during(func() error { return tryIP("addr delete 10.98.0.1/24 dev " + w.netdevs[0]) })
	third := netip.MustParseAddr("::ffff:10.98.0.3")
	p.until("the renewed address", func() bool {
		return p.d[0].rails[0].Address.GID == third && p.d[1].eps[0].addr.Rails[0].GID == third
	})
	p.exchange(10)
	w.check("when the one in use was removed", p, [2]string{"10.98.0.3", "10.98.0.2"})
	p.during(func() error { return tryIP("addr add 10.98.0.1/24 dev " + w.netdevs[0]) })
	p.exchange(50)
}

// TestLiveAddressGone: the only IPv4 address is removed, and added again once the connection has ended. The GID is chosen by the
// process, or by index. The connection is made again, and no message is lost or delivered twice.
func TestLiveAddressGone(t *testing.T) {
	w := newWire(t)
	w.address(0, "10.98.0.1/24")
	w.address(1, "10.98.0.2/24")
	w.addDevices()
	for what, byIndex := range map[string]bool{"chosen": false, "by index": true} {
		t.Run(what, func(t *testing.T) {
			sets := w.settings()
			if byIndex { // when the address is added again it may get another one
				sets[0].GIDIndex = w.gidIndex(0, "10.98.0.1")
			}
			p := openPeersOn(t, sets)
			p.exchange(10)
			e := p.d[0].eps[1]
			before := e.conn.Epoch
			p.sendDuring(func() error { return tryIP("addr delete 10.98.0.1/24 dev " + w.netdevs[0]) })
			p.until("the end of the connection", func() bool { return e.conn.Epoch != before || e.conn.State != cm.StateEstablished })
			p.sendDuring(func() error { return tryIP("addr add 10.98.0.1/24 dev " + w.netdevs[0]) })
			p.exchange(50)
		})
	}
}
