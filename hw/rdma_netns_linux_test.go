package hw

import (
	"net"
	"net/netip"
	"testing"
)

func TestInterfaceHasGID(t *testing.T) {
	n := netInterface{
		mac:   net.HardwareAddr{0x52, 0x54, 0x00, 0x12, 0x34, 0x56},
		addrs: []netip.Addr{netip.MustParseAddr("::ffff:10.0.0.1"), netip.MustParseAddr("fe80::42")},
	}
	for _, c := range []struct {
		n    netInterface
		gid  string
		want bool
	}{
		{n, "::ffff:10.0.0.1", true},
		{n, "::ffff:10.0.0.2", false}, // address of an interface with the same name in the host's namespace
		{n, "fe80::42", true},
		{n, "fe80::5054:ff:fe12:3456", true}, // derived from the MAC address
		{n, "fe80::5054:ff:fe12:3457", false},
		{n, "2001:db8::5054:ff:fe12:3456", false},
		{netInterface{}, "fe80::5054:ff:fe12:3456", false}, // not in this namespace
	} {
		if got := c.n.hasGID(netip.MustParseAddr(c.gid)); got != c.want {
			t.Errorf("holds %s is %t, want %t", c.gid, got, c.want)
		}
	}
}

func TestInterfacesOfThisMachine(t *testing.T) {
	here, err := listInterfaces()
	if err != nil {
		t.Fatal(err)
	}
	list, err := net.Interfaces()
	if err != nil || len(here) != len(list) {
		t.Errorf("found %d interfaces of %d, %v", len(here), len(list), err)
	}
}
