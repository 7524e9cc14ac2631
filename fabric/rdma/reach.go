package rdma

import (
	"fmt"
	"net/netip"

	"github.com/ibrun/ibrun/hw"
)

// linkInfo is what processes with devices of several subnets compare, in order to choose the one that both use. See domain.Reach.
type linkInfo struct {
	rate      uint32 // of the first rail in megabits per second; 0: unknown
	preferred bool   // the device was assigned to the process or named by the user
	near      bool   // the device is near the process
	// prefixBits is the length of the prefix of the IP network, for the 16-byte form of an address; 0: unknown.
	prefixBits uint8
}

// The bits of a link's flags in an address.
const (
	linkPreferred = 1 << iota
	linkNear
	linkFlags
)

func (l linkInfo) flags() (b byte) {
	if l.preferred {
		b |= linkPreferred
	}
	if l.near {
		b |= linkNear
	}
	return b
}

// link returns the properties of a candidate. The zero candidate means that the user has named the devices.
func (c *candidate) link() linkInfo {
	if c.port == nil {
		return linkInfo{preferred: true, near: true}
	}
	l := linkInfo{rate: uint32(min(c.port.Rate/1e6, 1<<32-1)), preferred: c.preferred, near: c.near > 0}
	if p := c.subnet.prefix; p.IsValid() && c.port.LinkLayer != hw.LinkInfiniBand {
		l.prefixBits = uint8(p.Bits())
		if p.Addr().Is4() {
			l.prefixBits += 128 - 32
		}
	}
	return l
}

// Reach reports how much this domain is preferred for a peer that has a domain with this address, if both processes have several
// domains: the higher the better. Both ends get the same number. The error says why the two domains do not reach each other.
//
// A path within one subnet is preferred to one that may need a router, then what was assigned to more of the two processes,
// then the higher rate, then InfiniBand, then what is near more of them.
func (d *domain) Reach(addr []byte) (preference uint64, err error) {
	a, err := parseAddress(addr)
	if err != nil {
		return 0, fmt.Errorf("fabric/rdma: %w", err)
	}
	if err := d.checkReachable(a); err != nil {
		return 0, err
	}
	ours, theirs := d.rails[0].address, a.rails[0]
	infiniBand, bits := ours.GIDType == hw.GIDInfiniBand, max(d.link.prefixBits, a.link.prefixBits)
	if infiniBand {
		bits = infiniBandPrefix
	}
	digit := func(on bool) uint64 {
		if on {
			return 1
		}
		return 0
	}
	for _, criterion := range [...]struct{ value, limit uint64 }{
		{digit(sameNetwork(ours.GID, theirs.GID, bits)), 2},
		{digit(d.link.preferred) + digit(a.link.preferred), 3},
		{uint64(min(d.link.rate, a.link.rate)), 1 << 32},
		{digit(infiniBand), 2},
		{digit(d.link.near) + digit(a.link.near), 3},
	} {
		preference = preference*criterion.limit + criterion.value
	}
	return preference, nil
}

// sameNetwork reports whether two addresses have the same prefix. If its length is unknown, they are assumed to have.
func sameNetwork(a, b netip.Addr, bits uint8) bool {
	if bits == 0 || !a.IsValid() || !b.IsValid() {
		return true
	}
	p, err := netip.AddrFrom16(a.As16()).Prefix(int(bits))
	return err == nil && p.Contains(netip.AddrFrom16(b.As16()))
}
