package admission

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/ibrun/ibrun/internal/soaktest"
)

var (
	epoch    = time.Unix(1e9, 0)
	stranger = netip.MustParseAddr("192.0.2.1")
	node     = netip.MustParseAddr("192.0.2.2")
)

// A source that connects without end displaces its own connections only, and none that is young.
func TestFlood(t *testing.T) {
	w := Waiting[int]{Limit: 8, MinAge: 10 * time.Second}
	if _, full := w.Add(-1, node, epoch); full {
		t.Fatal("the first connection was refused")
	}
	since := map[int]time.Time{}
	now := epoch
	for i := range 1000 {
		now = now.Add(time.Second)
		since[i] = now
		drop, full := w.Add(i, stranger, now)
		switch {
		case full != (i >= 4):
			t.Fatalf("connection %d: full: %v", i, full)
		case full && drop == -1:
			t.Fatal("the connection of another source was dropped")
		case full && drop != i && now.Sub(since[drop]) < w.MinAge:
			t.Fatalf("connection %d was dropped after %v", drop, now.Sub(since[drop]))
		}
	}
	if w.Len() != 5 || w.All()[0] != -1 || !w.Remove(-1) || w.Remove(-1) || w.Len() != 4 {
		t.Errorf("%d are left: %v", w.Len(), w.All())
	}
}

// If many sources fill the set, the one with the most places gives way to one that has fewer.
func TestManySources(t *testing.T) {
	w := Waiting[int]{Limit: 6, MinAge: 10 * time.Second}
	for i, from := range []netip.Addr{stranger, stranger, stranger, netip.MustParseAddr("198.51.100.1"),
		netip.MustParseAddr("198.51.100.2"), netip.MustParseAddr("198.51.100.3")} {
		if _, full := w.Add(i, from, epoch); full {
			t.Fatalf("connection %d was refused", i)
		}
	}
	if drop, full := w.Add(6, node, epoch.Add(5*time.Second)); !full || drop != 6 {
		t.Errorf("while all are young: %d, %v; want the new one", drop, full)
	}
	if drop, full := w.Add(6, node, epoch.Add(10*time.Second)); !full || drop != 0 {
		t.Errorf("%d, %v; want the oldest of the source with most", drop, full)
	}
}

// A set never exceeds its limit, and contains exactly what was added and neither dropped nor removed.
func TestModel(t *testing.T) {
	seed := soaktest.Seed(t)
	r := rand.New(rand.NewPCG(seed, 1))
	w := Waiting[int]{Limit: 1 + r.IntN(9), MinAge: 3}
	model := map[int]bool{}
	for i := range 10000 {
		if r.IntN(4) == 0 {
			c := r.IntN(i + 1)
			if w.Remove(c) != model[c] {
				t.Fatalf("connection %d is in the set: %v, want %v", c, !model[c], model[c])
			}
			delete(model, c)
			continue
		}
		model[i] = true
		if drop, full := w.Add(i, netip.AddrFrom4([4]byte{192, 0, 2, byte(r.IntN(4))}), epoch.Add(time.Duration(i))); full {
			if !model[drop] {
				t.Fatalf("connection %d was dropped, which is not there", drop)
			}
			delete(model, drop)
		}
		if w.Len() != len(model) || w.Len() > w.Limit {
			t.Fatalf("%d connections, want %d; the limit is %d", w.Len(), len(model), w.Limit)
		}
	}
}

// A source is an IPv4 address, also if it is written as IPv6, or a network of 64 bits.
func TestSource(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"192.0.2.1", "::ffff:192.0.2.1", true},
		{"192.0.2.1", "192.0.2.2", false},
		{"2001:db8::1", "2001:db8::2:3", true},
		{"2001:db8:0:1::1", "2001:db8::1", false},
		{"fe80::1%lo", "fe80::2", true},
	} {
		if got := sourceOf(netip.MustParseAddr(c.a)) == sourceOf(netip.MustParseAddr(c.b)); got != c.same {
			t.Errorf("%s and %s are one source: %v", c.a, c.b, got)
		}
	}
	if sourceOf(netip.Addr{}) != (netip.Prefix{}) {
		t.Error("no address is a source of its own")
	}
}
