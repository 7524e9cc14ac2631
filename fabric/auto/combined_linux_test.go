package auto

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/fabrictest"
	"github.com/ibrun/ibrun/fabric/shm"
)

// twoDomains reaches the neighbours 2k and 2k+1 by one domain, which has no shared memory, and all others by another.
type twoDomains struct{ near, far shm.Transport }

func (*twoDomains) Name() string   { return "combined" }
func (t *twoDomains) Probe() error { return t.near.Probe() }

func (t *twoDomains) Open(ctx context.Context, c *fabric.Config) (fabric.Domain, error) {
	near, err := t.near.Open(ctx, c)
	if err != nil {
		return nil, err
	}
	far, err := t.far.Open(ctx, c)
	if err != nil {
		return nil, errors.Join(err, near.Close())
	}
	return combine(c, []part{
		{Domain: struct{ fabric.Domain }{near}, name: "near", reaches: func(peer int) bool { return peer/2 == c.Self/2 }},
		{Domain: far, name: "far", reaches: func(peer int) bool { return true }},
	}, new(Node))
}

func twoDomainPeers(tb testing.TB, n int) []fabric.Transport {
	t := new(twoDomains)
	rand.Read(t.near.Key[:])
	rand.Read(t.far.Key[:])
	for i := range n {
		t.near.Local = append(t.near.Local, i)
	}
	t.far.Local = t.near.Local
	return slices.Repeat([]fabric.Transport{t}, n)
}

func TestCombined(t *testing.T) { fabrictest.Run(t, twoDomainPeers) }

// openCombined opens all of n peers and returns their domains.
func openCombined(t *testing.T, n int) []*combinedSharing {
	t.Helper()
	ds, errs := make([]*combinedSharing, n), make([]error, n)
	var all sync.WaitGroup
	for i, tr := range twoDomainPeers(t, n) {
		all.Go(func() {
			var d fabric.Domain
			if d, errs[i] = tr.Open(t.Context(), &fabric.Config{Self: i, Size: n}); errs[i] == nil {
				ds[i] = d.(*combinedSharing)
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, d := range ds {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return ds
}

// TestRoute: a peer is reached by the first domain that can reach it and has an address of it.
func TestRoute(t *testing.T) {
	d := openCombined(t, 4)[0]
	for peer := range 4 {
		want := d.parts[min(peer/2, 1)].Domain
		if d.Route(peer) != want {
			t.Errorf("peer %d, which may send before it is connected, arrives through %v", peer, d.Route(peer))
		}
		if _, err := d.Connect(peer, d.Addr()); err != nil {
			t.Fatal(err)
		}
		if d.Route(peer) != want {
			t.Errorf("peer %d is reached by %v", peer, d.Route(peer))
		}
	}
	d.parts[0].reaches, d.parts[1].reaches = nil, nil
	for addr, want := range map[string]int{"\x04near\x00\x03far\x00": 0, "\x03far\x00": 1, "\x03tcp\x02xy": -1, "": -1} {
		_, err := d.Connect(1, []byte(addr))
		if want < 0 != errors.Is(err, fabric.ErrNotSupported) || want >= 0 && d.Route(1) != d.parts[want].Domain {
			t.Errorf("%q: %v", addr, err)
		}
	}
	if _, err := d.Connect(1, []byte("\x04ne")); !errors.Is(err, errAddress) {
		t.Errorf("a truncated address: %v", err)
	}
	for _, peer := range []int{-1, 4} {
		if _, err := d.Connect(peer, nil); err == nil {
			t.Errorf("peer %d of 4 was connected", peer)
		}
	}
}

// TestSegmentReach: a segment for peers that cannot share memory is an error.
func TestSegmentReach(t *testing.T) {
	d := openCombined(t, 4)[0]
	d.parts[1].reaches = func(peer int) bool { return peer < 2 }
	if _, err := d.Segment(1, []int{0, 2}, 4096); !errors.Is(err, fabric.ErrNotSupported) {
		t.Errorf("a segment with a peer of another node: %v", err)
	}
}

// TestIdleIsPolled: a domain without events for a long time is still polled.
func TestIdleIsPolled(t *testing.T) {
	ds := openCombined(t, 4)
	ep, err := ds[1].Connect(0, ds[0].Addr())
	if err != nil {
		t.Fatal(err)
	}
	for ep.Send([]byte("by the near domain"), nil) == fabric.ErrAgain {
	}
	ds[0].active = 1
	var evs [4]fabric.Event
	for i := 0; ; i++ {
		n, err := ds[0].Poll(evs[:])
		if err != nil {
			t.Fatal(err)
		}
		if n == 1 && bytes.Equal(evs[0].Data, []byte("by the near domain")) {
			return
		}
		if i > 2*idlePollInterval {
			t.Fatalf("nothing after %d polls", i)
		}
	}
}
