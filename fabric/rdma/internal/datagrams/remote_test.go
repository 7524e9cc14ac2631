package datagrams

import (
	"net/netip"
	"testing"
	"time"

	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/devices"
	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/verbs"
)

// address returns an address with a revision.
func address(incarnation uint64, revision uint16) cm.Address {
	rail := cm.RailAddress{N: 1, Address: verbs.Address{Type: verbs.UD, QPN: 1, MTU: verbs.MTU1024, GIDType: hw.GIDRoCEv2,
		GID: netip.MustParseAddr("::ffff:10.0.0.1")}}
	rail.Partitions[0] = cm.Partition{Key: 0xffff, UD: 1, Responder: 2}
	return cm.Address{Incarnation: incarnation, Revision: revision, Rails: []cm.RailAddress{rail}}
}

// TestTake: only a later address of the same process that is reached replaces the one that is
// known. Revisions wrap around.
func TestTake(t *testing.T) {
	reached, other := devices.Rails{}, devices.Rail{Address: address(1, 0).Rails[0].Address}
	other.Address.GIDType = hw.GIDInfiniBand
	for _, c := range []struct {
		known, taken uint16
		incarnation  uint64
		rails        devices.Rails
		want         uint16
	}{
		{0, 1, 7, reached, 1},
		{1, 1, 7, reached, 1},
		{2, 1, 7, reached, 2},
		{1<<16 - 1, 0, 7, reached, 0},
		{0, 1<<16 - 1, 7, reached, 0},
		{0, 1, 8, reached, 0},
		{0, 1, 7, devices.Rails{&other}, 0},
	} {
		r, later := Remote{Address: address(7, c.known)}, address(c.incarnation, c.taken)
		if r.take(later.Append(nil), c.rails); r.Revision != c.want {
			t.Errorf("%+v: revision %d", c, r.Revision)
		}
	}
	r, later := Remote{Address: address(7, 0)}, address(7, 1)
	encoded := later.Append(nil)
	for n := range encoded {
		if r.take(encoded[:n], reached); r.Revision != 0 {
			t.Fatalf("takes %d bytes of %d", n, len(encoded))
		}
	}
}

// TestRefreshDue: the ports are queried after 1, 2, 4 and so on intervals of silence, but however
// many peers are silent, once in an interval.
func TestRefreshDue(t *testing.T) {
	const interval = time.Second
	var m Manager
	now := 5 * time.Second
	for n, want := range []bool{1: true, 2: true, 3: false, 4: true, 5: false, 8: true} {
		if n == 0 {
			continue
		}
		if got := m.RefreshDue(now, interval, n); got != want {
			t.Errorf("after %d intervals: %v", n, got)
		}
		if m.RefreshDue(now+interval/2, interval, 1) == want {
			t.Errorf("another peer, half an interval after: %v", want)
		}
		now += 2 * interval
	}
}
