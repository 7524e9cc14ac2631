package verbs

import (
	"net/netip"
	"testing"

	"github.com/ibrun/ibrun/hw"
)

// TestGIDByIndexAndAddress: an address that was removed and added again is found at its new index. Without it, the index counts.
func TestGIDByIndexAndAddress(t *testing.T) {
	gid := func(index int, addr string, kind hw.GIDType) hw.GID {
		return hw.GID{Index: index, Addr: netip.MustParseAddr(addr), Type: kind}
	}
	table := []hw.GID{
		gid(0, "fe80::1", hw.GIDRoCEv2), gid(1, "::ffff:10.0.0.1", hw.GIDRoCEv1), gid(2, "::ffff:10.0.0.1", hw.GIDRoCEv2),
		gid(4, "::ffff:10.0.0.2", hw.GIDRoCEv2),
	}
	for _, c := range []struct {
		index int
		addr  string
		want  int
	}{{1, "", 1}, {3, "", -1}, {1, "10.0.0.1", 1}, {2, "10.0.0.1", 2}, {3, "10.0.0.1", 2}, {0, "10.0.0.2", 3},
		{3, "10.0.0.2", 3}, {3, "10.0.0.9", -1}, {4, "10.0.0.9", 3}} {
		want := netip.Addr{}
		if c.addr != "" {
			want = netip.MustParseAddr(c.addr)
		}
		if got := findIndexed(table, c.index, want); got != c.want {
			t.Errorf("index %d and address %q: entry %d, want %d", c.index, c.addr, got, c.want)
		}
	}
}
