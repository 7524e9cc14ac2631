package devices

import (
	"net"
	"net/netip"

	"github.com/ibrun/ibrun/verbs"
)

// Network provides devices: those of this machine, or of a simulated network.
type Network interface {
	// Devices lists the devices of the node, also those that cannot be opened.
	Devices() ([]verbs.Device, error)
	// Open opens a device.
	Open(name string) (*verbs.Context, error)
	// Prefix returns the network of an address of an interface. It is not valid if it is unknown.
	Prefix(netdev string, addr netip.Addr) netip.Prefix
}

// Machine is the Network of this machine.
type Machine struct {
	// Provider selects how the devices are accessed, see [verbs.Options].
	Provider string
}

// Devices lists the devices of this machine.
func (Machine) Devices() ([]verbs.Device, error) { return verbs.Devices() }

// Open opens a device of this machine.
func (m Machine) Open(name string) (*verbs.Context, error) {
	return verbs.Open(name, verbs.Options{Provider: m.Provider})
}

// Prefix returns the network of an address of an interface of this machine.
func (Machine) Prefix(netdev string, addr netip.Addr) netip.Prefix {
	i, err := net.InterfaceByName(netdev)
	if err != nil {
		return netip.Prefix{}
	}
	addrs, err := i.Addrs()
	if err != nil {
		return netip.Prefix{}
	}
	for _, a := range addrs {
		n, ok := a.(*net.IPNet)
		if !ok {
			continue
		}
		if ip, ok := netip.AddrFromSlice(n.IP); ok && ip.Unmap() == addr.Unmap() {
			bits, _ := n.Mask.Size()
			return netip.PrefixFrom(ip.Unmap(), bits).Masked()
		}
	}
	return netip.Prefix{}
}
