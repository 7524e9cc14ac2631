package cm

import (
	"net/netip"
	"testing"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/verbs"
)

// TestPreference: both ends compute the same number, in which each property counts more than all
// that follow it.
func TestPreference(t *testing.T) {
	type end struct {
		gid  string
		link Link
	}
	at := func(e end) verbs.Address {
		a := verbs.Address{Type: verbs.UD, GIDType: hw.GIDRoCEv2, GID: netip.MustParseAddr(e.gid)}
		if a.GID.Is6() && !a.GID.Is4In6() {
			a.GIDType = hw.GIDInfiniBand
		}
		return a
	}
	ours := end{"::ffff:10.0.0.1", Link{Rate: 400, PrefixBits: 120}}
	var last uint64
	for i, peer := range []end{
		{"::ffff:10.0.9.1", Link{PrefixBits: 120}},
		{"::ffff:10.0.9.1", Link{PrefixBits: 120, Near: true}},
		{"::ffff:10.0.9.1", Link{PrefixBits: 120, Rate: 400, Near: true}},
		{"::ffff:10.0.9.1", Link{PrefixBits: 120, Rate: 1, Preferred: true}},
		{"::ffff:10.0.0.2", Link{PrefixBits: 120}},
		{"::ffff:10.0.0.2", Link{Rate: 1, Near: true}},
		{"::ffff:10.0.0.2", Link{PrefixBits: 120, Rate: 500}},
		{"::ffff:10.0.0.2", Link{PrefixBits: 120, Preferred: true}},
	} {
		got := Preference(ours.link, at(ours), &Address{Link: peer.link, Rails: []RailAddress{{Address: at(peer)}}})
		back := Preference(peer.link, at(peer), &Address{Link: ours.link, Rails: []RailAddress{{Address: at(ours)}}})
		if got != back || i > 0 && got <= last {
			t.Errorf("peer %d: %#x, and %#x from the other end; the one before has %#x", i, got, back, last)
		}
		last = got
	}
}

// TestSameNetwork: addresses are compared by the prefix, and those of an unknown network count as
// neighbours.
func TestSameNetwork(t *testing.T) {
	for _, c := range []struct {
		a, b string
		bits uint8
		want bool
	}{
		{"10.0.0.1", "::ffff:10.0.0.9", 120, true}, {"10.0.0.1", "10.0.1.1", 120, false}, {"10.0.0.1", "10.0.1.1", 112, true},
		{"10.0.0.1", "10.9.9.9", 0, true}, {"fe80::1", "fe80::2", InfiniBandPrefix, true},
		{"fe80::1", "fec0::1", InfiniBandPrefix, false},
	} {
		if got := sameNetwork(netip.MustParseAddr(c.a), netip.MustParseAddr(c.b), c.bits); got != c.want {
			t.Errorf("%s and %s, %d bits: %v", c.a, c.b, c.bits, got)
		}
	}
	if !sameNetwork(netip.Addr{}, netip.MustParseAddr("10.0.0.1"), 120) {
		t.Error("an invalid address")
	}
}

// TestLaneSet: a set has the lanes that were added, and those of a rail are told apart from others.
func TestLaneSet(t *testing.T) {
	var s LaneSet
	for rail := range uint8(MaxRails) {
		for path := range uint8(MaxLanes) {
			l := Lane{rail, path}
			if s.Has(l) {
				t.Errorf("%v is in the set before it was added", l)
			}
			if s |= l.Bit(); !s.Has(l) || !OfRail(rail).Has(l) || OfRail((rail+1)%MaxRails).Has(l) {
				t.Errorf("%v: %b", l, s)
			}
		}
	}
}
