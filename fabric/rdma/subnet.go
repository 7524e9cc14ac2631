package rdma

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/tunables"
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

// fitting returns the ports that have what the settings demand: the partition, and the local address. The errors say what the
// others lack. If no port has it, all are returned, and the error of Open says why.
func (s *Settings) fitting(all []candidate) (fit []candidate, unfit []error) {
	for i := range all {
		if err := s.check(&all[i]); err != nil {
			unfit = append(unfit, err)
		} else {
			fit = append(fit, all[i])
		}
	}
	if len(fit) == 0 {
		return all, nil
	}
	return fit, unfit
}

// check returns what a port lacks that the settings demand. What package hw does not know is left to Open.
func (s *Settings) check(c *candidate) error {
	p := c.port
	if s.GIDIndex != nil && len(p.GIDs) > 0 && s.namedGID(p) == nil {
		return &DeviceError{Device: c.device, Capability: "GID",
			Reason: fmt.Sprintf("port %d has none of index %d (%s)", p.Number, *s.GIDIndex, tunables.RDMAGIDIndex.Variable)}
	}
	if s.PKey != 0 && p.LinkLayer == hw.LinkInfiniBand && len(p.PKeys) > 0 && !slices.ContainsFunc(p.PKeys, s.allowsPartition) {
		return &DeviceError{Device: c.device, Capability: "partition",
			Reason: fmt.Sprintf("port %d is not in %#x (%s)", p.Number, s.PKey, tunables.RDMAPKey.Variable)}
	}
	return nil
}

// namedGID returns the address of a port that the settings demand, nil if it has none of that index.
func (s *Settings) namedGID(p *hw.RDMAPort) *hw.GID {
	if i := slices.IndexFunc(p.GIDs, func(g hw.GID) bool { return g.Index == *s.GIDIndex }); i >= 0 {
		return &p.GIDs[i]
	}
	return nil
}

// allowsPartition reports whether the partition of a key may be used. 0 is an empty entry of a table.
func (s *Settings) allowsPartition(key uint16) bool {
	return key&^cm.FullMember != 0 && (s.PKey == 0 || key|cm.FullMember == uint16(s.PKey)|cm.FullMember)
}

// localGID returns the address that is used of a port.
func (s *Settings) localGID(p *hw.RDMAPort) (hw.GID, error) {
	if s.GIDIndex != nil {
		if g := s.namedGID(p); g != nil {
			return *g, nil
		}
	}
	g, err := p.ChooseGID(hw.GIDRequest{})
	return g.GID, err
}

// subnetOf returns the subnet of a port.
func (s *Settings) subnetOf(p *hw.RDMAPort, n Network) subnet {
	net := subnet{layer: p.LinkLayer}
	g, err := s.localGID(p)
	switch {
	case err != nil:
	case p.LinkLayer == hw.LinkInfiniBand:
		net.prefix = netip.PrefixFrom(g.Addr, cm.InfiniBandPrefix).Masked()
		net.partitions = s.partitionsOf(p)
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

// partitionsOf returns subnet.partitions, without those that the settings exclude.
func (s *Settings) partitionsOf(p *hw.RDMAPort) string {
	var keys []uint16
	for _, k := range p.PKeys {
		if s.allowsPartition(k) {
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
