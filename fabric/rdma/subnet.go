package rdma

import (
	"encoding/binary"
	"net"
	"net/netip"
	"slices"

	"github.com/ibrun/ibrun/hw"
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

// machine is the Network of this machine, whose devices are accessed through a provider.
type machine struct{ provider string }

func (machine) Devices() ([]verbs.Device, error) { return verbs.Devices() }

func (m machine) Open(name string) (*verbs.Context, error) {
	return verbs.Open(name, verbs.Options{Provider: m.provider})
}

func (machine) Prefix(netdev string, addr netip.Addr) netip.Prefix {
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

// subnet identifies the network that a port is connected to, as far as its node knows. Ports of one subnet reach each other.
// Ports of different InfiniBand subnets do not. Ports of different IP networks do if there are routes between them.
type subnet struct {
	layer hw.LinkLayer
	// prefix is that of the GIDs of the InfiniBand subnet, or the IP network. It is not valid if the port has no usable GID, or
	// if the network has no room for two hosts: then the hosts are connected by routes alone.
	prefix netip.Prefix
	// partitions lists the partitions of an InfiniBand port: keys without the bit for full membership, ascending, 2 bytes each.
	partitions string
}

// subnetOf returns the subnet of a port.
func subnetOf(p *hw.RDMAPort, n Network) subnet {
	s := subnet{layer: p.LinkLayer}
	g, err := p.ChooseGID(hw.GIDRequest{})
	switch {
	case err != nil:
	case p.LinkLayer == hw.LinkInfiniBand:
		s.prefix = netip.PrefixFrom(g.Addr, infiniBandPrefix).Masked()
		s.partitions = partitionsOf(p)
	case g.Family() == hw.FamilyLinkLocal:
		s.prefix = netip.PrefixFrom(g.Addr, linkLocalPrefix).Masked()
	default:
		s.prefix = n.Prefix(g.Netdev, g.Addr)
		if s.prefix.IsValid() && s.prefix.Addr().BitLen()-s.prefix.Bits() < 2 {
			s.prefix = netip.Prefix{}
		}
	}
	return s
}

// partitionsOf returns subnet.partitions.
func partitionsOf(p *hw.RDMAPort) string {
	const full = 1 << 15
	var keys []uint16
	for _, k := range p.PKeys {
		if k&^full != 0 { // 0 is an empty entry
			keys = append(keys, k&^full)
		}
	}
	slices.Sort(keys)
	var b []byte
	for _, k := range slices.Compact(keys) {
		b = binary.BigEndian.AppendUint16(b, k)
	}
	return string(b)
}

const (
	infiniBandPrefix = 64 // length in bits of the prefix of an InfiniBand subnet
	linkLocalPrefix  = 64
)

// compare orders subnets. InfiniBand comes after all others.
func (s subnet) compare(o subnet) int {
	rank := func(s subnet) []byte {
		b := []byte{0}
		if s.layer == hw.LinkInfiniBand {
			b[0] = 1
		}
		b = binary.BigEndian.AppendUint16(append(b, s.prefix.Addr().AsSlice()...), uint16(s.prefix.Bits()))
		return append(append(b, s.layer...), s.partitions...)
	}
	return slices.Compare(rank(s), rank(o))
}
