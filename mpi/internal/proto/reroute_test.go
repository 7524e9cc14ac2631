package proto

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/ibrun/ibrun/fabric"
)

// detours opens a detour for process 0.
type detours struct {
	fabric.Transport
	d *detour
}

func (x *detours) Open(ctx context.Context, c *fabric.Config) (fabric.Domain, error) {
	d, err := x.Transport.Open(ctx, c)
	if err != nil || c.Self != 0 {
		return d, err
	}
	x.d = &detour{Domain: d, first: &deadEnd{Domain: d}}
	return x.d, nil
}

// detour is a domain that seems to reach its peers through another one, until it is turned.
type detour struct {
	fabric.Domain
	first  *deadEnd
	turn   bool // the next Poll reports that the route has changed
	turned bool
}

func (d *detour) Route(int) fabric.Domain {
	if d.turned {
		return d.Domain
	}
	return d.first
}

func (d *detour) Routes() []fabric.Domain { return []fabric.Domain{d.first, d.Domain} }

func (d *detour) Connect(peer int, addr []byte) (fabric.Endpoint, error) {
	if d.turned {
		return d.Domain.Connect(peer, addr)
	}
	return d.first.Connect(peer, addr)
}

func (d *detour) Poll(evs []fabric.Event) (int, error) {
	if d.turn && !d.turned {
		d.turned = true
		evs[0] = fabric.Event{Kind: fabric.Rerouted, Peer: 1}
		return 1, nil
	}
	return d.Domain.Poll(evs)
}

// deadEnd is a domain that registers memory, but never takes a message. It has other limits than
// the domain behind it.
type deadEnd struct {
	fabric.Domain
	registered int
}

func (d *deadEnd) Caps() fabric.Caps {
	c := d.Domain.Caps()
	c.Transport, c.Direct, c.Read, c.Eager, c.MaxSend = "rdma", false, true, 2000, 2200
	return c
}

func (d *deadEnd) Register([]byte) (fabric.Region, error) {
	d.registered++
	return fabric.Region{Remote: fabric.RemoteKey{Addr: 1, Key: 1}}, nil
}

func (d *deadEnd) Deregister(fabric.Region) error {
	d.registered--
	return nil
}

func (d *deadEnd) Connect(peer int, addr []byte) (fabric.Endpoint, error) {
	ep, err := d.Domain.Connect(peer, addr)
	return fullEndpoint{ep}, err
}

// fullEndpoint has no room.
type fullEndpoint struct{ fabric.Endpoint }

func (fullEndpoint) Send([]byte, []byte) error { return fabric.ErrAgain }

// TestReroute: messages that wait for a peer are sent by the domain that reaches it in the end, by
// the protocols of that domain, and arrive in order. What was registered with the first domain is
// released.
func TestReroute(t *testing.T) {
	x := &detours{}
	es := open(t, 2, func(tr fabric.Transport) fabric.Transport {
		x.Transport = tr
		return x
	}, nil)
	lengths := []int{0, 8, 1900, 2100, 5000, 100_000, 3, 1 << 20}
	payload := func(i int) []byte {
		b := make([]byte, lengths[i])
		for k := range b {
			b[k] = byte(i + k)
		}
		return b
	}
	var hs []Handle
	for i := range lengths {
		mode := Standard
		if i%2 == 1 {
			mode = Synchronous
		}
		h, err := es[0].Isend(to(0, 1, 1), payload(i), mode)
		if err != nil {
			t.Fatal(err)
		}
		hs = append(hs, h)
	}
	if x.d.first.registered == 0 {
		t.Error("no memory was registered with the first domain")
	}
	x.d.turn = true
	each(t, es, func(self int, e *Engine) error {
		if self == 0 {
			var errs []error
			for _, h := range hs {
				_, err := e.Requests().Wait(h)
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		}
		for i, n := range lengths {
			b := make([]byte, n)
			if s, err := e.Recv(from(0, 1), b); err != nil || s.Bytes != n || string(b) != string(payload(i)) {
				return fmt.Errorf("message %d of %d bytes: %+v, %w", i, n, s, err)
			}
		}
		return nil
	})
	if err := es[0].links.paths[0].regs.Close(); err != nil || x.d.first.registered != 0 {
		t.Errorf("%d registrations with the first domain are left: %v", x.d.first.registered, err)
	}
}
