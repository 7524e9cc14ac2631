package protocols

import (
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/mpi/internal/wire"
)

// TestNearest: a protocol is replaced only where it is impossible.
func TestNearest(t *testing.T) {
	x := Thresholds{MaxEager: 100, FragmentSize: 80, MaxData: 120, CanRead: true}
	copied := x
	copied.CanRead = false
	for _, c := range []struct {
		x                 Thresholds
		p                 Protocol
		n                 int
		fragments, paired bool
		want              Protocol
	}{
		{x, Eager, 120, true, true, Eager},
		{x, Eager, 121, true, true, Fragmented},
		{x, Eager, 121, false, true, RendezvousRead},
		{x, Fragmented, 80, true, true, Eager},
		{x, Fragmented, 81, true, true, Fragmented},
		{x, Fragmented, 81, false, true, RendezvousRead},
		{x, Fragmented, MaxFragmented, true, true, Fragmented},
		{x, Fragmented, MaxFragmented + 1, true, true, RendezvousRead},
		{x, RendezvousRead, 1, true, true, RendezvousRead},
		{x, RendezvousShared, MinShared, true, true, RendezvousShared},
		{x, RendezvousShared, MinShared - 1, true, true, RendezvousRead},
		{x, RendezvousShared, MinShared, true, false, RendezvousRead},
		{x, RendezvousCopy, 1, true, true, RendezvousCopy},
		{copied, RendezvousRead, 1, true, true, RendezvousCopy},
		{copied, RendezvousShared, MinShared, true, true, RendezvousCopy},
		{copied, Fragmented, 81, true, false, Fragmented},
		{Thresholds{MaxData: 120, CanRead: true}, Fragmented, 121, true, false, RendezvousRead},
	} {
		if got := c.x.Nearest(c.p, c.n, c.fragments, c.paired); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// TestMaxFragmented: an engine fragments no longer messages, whatever the transport prefers.
func TestMaxFragmented(t *testing.T) {
	r, err := ThresholdsOf(fabric.Caps{MaxSend: 4096, Eager: 4096, Stream: 1 << 30, Read: true})
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int]Protocol{MaxFragmented: Fragmented, MaxFragmented + 1: RendezvousRead} {
		if got := r.Choose(n, false); got != want {
			t.Errorf("%d bytes: protocol %d, want %d", n, got, want)
		}
	}
	if _, err := ThresholdsOf(fabric.Caps{MaxSend: wire.MaxHeader, Eager: wire.MaxHeader}); err == nil {
		t.Error("a transport without room for a payload was accepted")
	}
}
