package hw

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// markOtherNetns sets OtherNetns for devices and GIDs. Without devices it does not use netlink, because a request would
// load a kernel module. A kernel without netlink for RDMA does not divide devices among namespaces.
func markOtherNetns(devices []RDMADevice) error {
	if len(devices) == 0 {
		return nil
	}
	byName, err := listInterfaces()
	if err != nil {
		return err
	}
	links, err := netlink.RdmaLinkList()
	for i := range devices {
		d := &devices[i]
		switch {
		case errors.Is(err, unix.EPROTONOSUPPORT):
		case err != nil:
			d.Problems = append(d.Problems, fmt.Sprintf("hw: list RDMA devices of this network namespace: %v", err))
		default:
			d.OtherNetns = !slices.ContainsFunc(links, func(l *netlink.RdmaLink) bool { return l.Attrs.Name == d.Name })
		}
		for p := range d.Ports {
			for g := range d.Ports[p].GIDs {
				gid := &d.Ports[p].GIDs[g]
				gid.OtherNetns = gid.Netdev != "" && !byName[gid.Netdev].hasGID(gid.Addr)
			}
		}
	}
	return nil
}

// netInterface is an interface of this network namespace.
type netInterface struct {
	mac   net.HardwareAddr
	addrs []netip.Addr // in 16-byte form
}

// listInterfaces returns the interfaces of this network namespace by name.
func listInterfaces() (map[string]netInterface, error) {
	list, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("hw: list network interfaces: %w", err)
	}
	byName := map[string]netInterface{}
	for _, nic := range list {
		addrs, err := nic.Addrs()
		if err != nil {
			return nil, fmt.Errorf("hw: list addresses of %s: %w", nic.Name, err)
		}
		n := netInterface{mac: nic.HardwareAddr}
		for _, a := range addrs {
			if prefix, ok := a.(*net.IPNet); ok && len(prefix.IP.To16()) == 16 {
				n.addrs = append(n.addrs, netip.AddrFrom16([16]byte(prefix.IP.To16())))
			}
		}
		byName[nic.Name] = n
	}
	return byName, nil
}

// hasGID reports whether a GID belongs to this interface, and not to an interface with the same name in another
// namespace. Besides the GIDs of its addresses an interface always has the link-local GID that the kernel derives from
// the MAC address.
func (n netInterface) hasGID(gid netip.Addr) bool {
	if slices.Contains(n.addrs, gid) {
		return true
	}
	if len(n.mac) != 6 || !gid.IsLinkLocalUnicast() {
		return false
	}
	m := n.mac
	return gid.As16() == [16]byte{0: 0xfe, 0x80, 8: m[0] ^ 2, m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]}
}
