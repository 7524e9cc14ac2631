package devices

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/hw"
)

// subnet identifies the network that a port is connected to, as far as its node knows. Ports of one
// subnet reach each other. Ports of different InfiniBand subnets do not. Ports of different IP
// networks do if there are routes between them.
type subnet struct {
	layer hw.LinkLayer
	// prefix is that of the GIDs of the InfiniBand subnet, or the IP network. It is not valid if
	// the port has no usable GID, or if the network has no room for two hosts: then the hosts are
	// connected by routes alone.
	prefix netip.Prefix
	// partitions lists the partitions of an InfiniBand port: keys without the bit for full
	// membership, ascending, 2 bytes each.
	partitions string
}

// subnetOf returns the subnet of a port.
func (c Choice) subnetOf(p *hw.RDMAPort, n Network) subnet {
	net := subnet{layer: p.LinkLayer}
	g, err := c.localGID(p)
	switch {
	case err != nil:
	case p.LinkLayer == hw.LinkInfiniBand:
		net.prefix = netip.PrefixFrom(g.Addr, cm.InfiniBandPrefix).Masked()
		net.partitions = c.partitionsOf(p)
	case g.Family() == hw.FamilyLinkLocal:
		net.prefix = netip.PrefixFrom(g.Addr, linkLocalPrefix).Masked()
	default:
		net.prefix = n.Prefix(g.Netdev, g.Addr)
		if net.prefix.IsValid() && net.prefix.Addr().BitLen()-net.prefix.Bits() < 2 {
			net.prefix = netip.Prefix{}
		}
	}
	return net
}

// partitionsOf returns subnet.partitions, without those that are not to be used.
func (c Choice) partitionsOf(p *hw.RDMAPort) string {
	var keys []uint16
	for _, k := range p.PKeys {
		if c.allowsPartition(k) {
			keys = append(keys, k&^cm.FullMember)
		}
	}
	slices.Sort(keys)
	var b []byte
	for _, k := range slices.Compact(keys) {
		b = binary.BigEndian.AppendUint16(b, k)
	}
	return string(b)
}

// linkLocalPrefix is the length in bits of the prefix of link-local addresses.
const linkLocalPrefix = 64

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
