package cm

import (
	"net/netip"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/verbs"
)

// Link is what processes with devices of several subnets compare, in order to choose the one that
// both use, see [Preference].
type Link struct {
	Rate      uint32 // of the first rail in megabits per second; 0: unknown
	Preferred bool   // the device was assigned to the process or named by the user
	Near      bool   // the device is near the process
	// PrefixBits is the length of the prefix of the IP network, for the 16-byte form of an address;
	// 0: unknown.
	PrefixBits uint8
}

// The bits of a link's flags in an address.
const (
	linkPreferred = 1 << iota
	linkNear
	linkFlags
)

func (l Link) flags() (b byte) {
	if l.Preferred {
		b |= linkPreferred
	}
	if l.Near {
		b |= linkNear
	}
	return b
}

// Preference returns how much a process with a link and a first rail at an address prefers the
// domain of a peer: the higher the better. Both ends get the same number.
//
// A path within one subnet is preferred to one that may need a router, then what was assigned to
// more of the two processes, then the higher rate, then InfiniBand, then what is near more of them.
func Preference(link Link, ours verbs.Address, peer *Address) (preference uint64) {
	theirs := peer.Rails[0]
	infiniBand, bits := ours.GIDType == hw.GIDInfiniBand, max(link.PrefixBits, peer.Link.PrefixBits)
	if infiniBand {
		bits = InfiniBandPrefix
	}
	digit := func(on bool) uint64 {
		if on {
			return 1
		}
		return 0
	}
	for _, criterion := range [...]struct{ value, limit uint64 }{
		{digit(sameNetwork(ours.GID, theirs.GID, bits)), 2},
		{digit(link.Preferred) + digit(peer.Link.Preferred), 3},
		{uint64(min(link.Rate, peer.Link.Rate)), 1 << 32},
		{digit(infiniBand), 2},
		{digit(link.Near) + digit(peer.Link.Near), 3},
	} {
		preference = preference*criterion.limit + criterion.value
	}
	return preference
}

// InfiniBandPrefix is the length in bits of the prefix of an InfiniBand subnet.
const InfiniBandPrefix = 64

// sameNetwork reports whether two addresses have the same prefix. If its length is unknown, they
// are assumed to have.
func sameNetwork(a, b netip.Addr, bits uint8) bool {
	if bits == 0 || !a.IsValid() || !b.IsValid() {
		return true
	}
	p, err := netip.AddrFrom16(a.As16()).Prefix(int(bits))
	return err == nil && p.Contains(netip.AddrFrom16(b.As16()))
}
