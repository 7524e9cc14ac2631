package proto

import (
	"context"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/mpi/internal/wire"
)

// fullDomains opens domains whose endpoints have no room while full.
type fullDomains struct {
	fabric.Transport
	full map[int]bool // by peer
}

func (x *fullDomains) Open(ctx context.Context, c *fabric.Config) (fabric.Domain, error) {
	d, err := x.Transport.Open(ctx, c)
	return fullDomain{d, x}, err
}

type fullDomain struct {
	fabric.Domain
	x *fullDomains
}

func (d fullDomain) Connect(peer int, addr []byte) (fabric.Endpoint, error) {
	ep, err := d.Domain.Connect(peer, addr)
	return fillable{ep, peer, d.x}, err
}

type fillable struct {
	fabric.Endpoint
	peer int
	x    *fullDomains
}

func (e fillable) Send(header, payload []byte) error {
	if e.x.full[e.peer] {
		return fabric.ErrAgain
	}
	return e.Endpoint.Send(header, payload)
}

// TestBlockedMeanwhile: a message that is queued for a peer while the messages for others are sent
// is sent later.
func TestBlockedMeanwhile(t *testing.T) {
	x := &fullDomains{full: map[int]bool{1: true, 2: true}}
	es := open(t, 3, func(tr fabric.Transport) fabric.Transport {
		x.Transport = tr
		return x
	}, nil)
	e := es[0]
	e.lock()
	defer e.unlock()
	l := &e.links
	l.sendControl(1, wire.Envelope{Kind: wire.Pause})
	h := &Request{}
	l.peer(1).head.req = h // its end queues another message
	l.notified.finished = func(r *Request, err error) {
		if r != h || err != nil {
			t.Errorf("request %p has left, want %p: %v", r, h, err)
		}
		l.sendControl(2, wire.Envelope{Kind: wire.Pause})
	}
	x.full[1] = false
	if !l.flushBlocked() || !slices.Equal(l.blocked, []int32{2}) {
		t.Fatalf("peers %v wait, want 2", l.blocked)
	}
	x.full[2] = false
	if !l.flushBlocked() || len(l.blocked) != 0 || l.peer(2).head != nil {
		t.Errorf("peers %v wait, want none", l.blocked)
	}
}
