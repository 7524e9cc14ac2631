//go:build linux

package verbstest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/soft-roce/link"
	"github.com/ibrun/ibrun/soft-roce/live"
	"github.com/ibrun/ibrun/verbs"
)

// openLive opens a device of this machine.
func openLive(name, provider string) Open {
	return func(tb testing.TB) *verbs.Context {
		tb.Helper()
		return must(verbs.Open(name, verbs.Options{Provider: provider}))(tb)
	}
}

// netdev returns the network interface below a device.
func netdev(t *testing.T, name string) netlink.Link {
	t.Helper()
	for _, d := range must(hw.LocalRDMA())(t) {
		if d.Name == name {
			return must(netlink.LinkByName(d.Ports[0].Netdev))(t)
		}
	}
	t.Fatalf("there is no device %s", name)
	return nil
}

// The link goes down and up during traffic. There are events, nothing is lost, and the connections continue.
func TestLiveLinkDown(t *testing.T) {
	name := live.Device(t)
	for _, provider := range []string{"rxe", "libibverbs"} {
		t.Run(provider, func(t *testing.T) {
			nic := netdev(t, name)
			r := newFixture(t, openLive(name, provider))
			p := verbs.DefaultParams()
			p.Timeout = 17 // half a second per retry: longer than the link is down
			a, b := r.pairWith(verbs.QPConfig{}, p)
			f := newTrafficStream(a, b, 1)
			for range 3 {
				for range maxInFlight - 1 {
					f.post(r)
				}
				a.ringDoorbell()
				down := netlink.LinkSetDown(nic)
				t.Cleanup(func() { netlink.LinkSetUp(nic) })
				if down != nil {
					t.Fatal(down)
				}
				if ev := r.awaitEvent(verbs.EventPortError); ev.Port != 1 {
					t.Fatalf("the event is %v", ev)
				}
				if s := must(r.ctx.QueryPort(1))(t).State; s == verbs.PortActive {
					t.Fatalf("the link is down, but the port is %v", s)
				}
				_, err := r.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: a.cq})
				r.checkError(err, verbs.ErrUnreachable, "a pair while no port is active")
				if err := netlink.LinkSetUp(nic); err != nil {
					t.Fatal(err)
				}
				if ev := r.awaitEvent(verbs.EventPortActive); ev.Port != 1 {
					t.Fatalf("the event is %v", ev)
				}
				f.waitAndCheck(r)
			}
			r.drain()
		})
	}
}

// Deleting an rxe link blocks until no process has it open, and completes when the context is closed.
func TestLiveLinkDeleted(t *testing.T) {
	live.Device(t)
	const name, nic = "rxegone", "gone0"
	ends := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: nic}, PeerName: "gone1"}
	if err := netlink.LinkAdd(ends); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { netlink.LinkDel(ends) })
	peer := must(netlink.LinkByName(ends.PeerName))(t)
	addr := must(netlink.ParseAddr("192.0.2.1/24"))(t)
	if err := errors.Join(netlink.AddrAdd(ends, addr), netlink.LinkSetUp(ends), netlink.LinkSetUp(peer)); err != nil {
		t.Fatal(err)
	}
	for _, provider := range []string{"rxe", "libibverbs"} {
		t.Run(provider, func(t *testing.T) {
			if err := link.Add(name, nic); err != nil {
				t.Fatal(err)
			}
			deleted := make(chan error, 1)
			r := newFixture(t, openLive(name, provider))
			a, b := r.pair(verbs.QPConfig{})
			r.exchange(a, b)
			ctx, cancel := context.WithCancel(r.context())
			waits := make(chan error, 1)
			go func() {
				for {
					if _, err := r.ctx.NextEvent(ctx); err != nil {
						waits <- err
						return
					}
				}
			}()
			go func() { deleted <- link.Delete(name) }()
			waittest.Nothing(t, 200*time.Millisecond, "a device in use was deleted", deleted)
			r.exchange(a, b) // the device works until then
			r.drain()
			if err := r.ctx.Close(); err != nil {
				t.Fatal(err)
			}
			if err := <-deleted; err != nil {
				t.Fatal(err)
			}
			if err := <-waits; !errors.Is(err, verbs.ErrClosed) {
				t.Errorf("a wait for an event of a closed device: %v", err)
			}
			cancel()
			_, err := verbs.Open(name, verbs.Options{Provider: provider})
			if !errors.Is(err, verbs.ErrNoDevice) {
				t.Errorf("open a deleted device: %v", err)
			}
		})
	}
}
