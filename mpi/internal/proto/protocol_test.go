package proto

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/ibrun/ibrun/fabric"
)

// tally counts the messages of a transport, by kind.
type tally struct {
	fabric.Transport
	sent [kindCount]atomic.Int32
}

func (c *tally) Open(ctx context.Context, cfg *fabric.Config) (fabric.Domain, error) {
	d, err := c.Transport.Open(ctx, cfg)
	if p, ok := d.(fabric.CooperativeCopier); ok {
		return struct {
			tallied
			fabric.CooperativeCopier
		}{tallied{d, c}, p}, err
	}
	return tallied{d, c}, err
}

type tallied struct {
	fabric.Domain
	c *tally
}

func (d tallied) Connect(peer int, addr []byte) (fabric.Endpoint, error) {
	ep, err := d.Domain.Connect(peer, addr)
	return counting{ep, d.c}, err
}

type counting struct {
	fabric.Endpoint
	c *tally
}

func (e counting) Send(header, payload []byte) error {
	err := e.Endpoint.Send(header, payload)
	if err == nil {
		e.c.sent[header[0]].Add(1)
	}
	return err
}

// travelled says which form the messages that were counted tell of, and in how many pieces, which they do not tell of every
// form.
func (c *tally) travelled() (f Protocol, pieces int) {
	n := func(k kind) int { return int(c.sent[k].Load()) }
	switch {
	case n(kindEager) > 0:
		return Eager, n(kindEager)
	case n(kindFirstFrag) > 0:
		return Fragmented, n(kindFirstFrag) + n(kindFrag)
	case n(kindDataRequest) > 0:
		return RendezvousCopy, n(kindData)
	case n(kindAssist) > 0:
		return RendezvousShared, 0
	}
	return RendezvousRead, 0
}

// TestForms: around each length at which the rules change the form, an engine does what they say.
func TestForms(t *testing.T) {
	for name, tw := range map[string]variant{
		"read": {}, "shared": {pairing: true}, "copied": {noRead: true}, "parts": {parts: true},
		"parts, then shared": {parts: true, pairing: true}, "parts, then copied": {parts: true, noRead: true},
	} {
		t.Run(name, func(t *testing.T) {
			count := &tally{}
			es := open(t, 2, func(tr fabric.Transport) fabric.Transport {
				count.Transport = tw.wrap(tr)
				return count
			}, nil)
			r := es[0].paths[0].thresholds
			stream := 0
			if tw.parts {
				stream = streaming{}.Stream()
			}
			for _, edge := range []int{
				1, r.MaxEager, r.MaxEager + r.FragmentSize, stream, MinShared, stream + MinShared, 16 << 10, r.MaxData,
				2 * r.MaxData, 1 << 20,
			} {
				for n := max(edge-1, 0); n <= edge+1; n++ {
					want := r.Choose(n, stream, tw.pairing)
					if err := trip(t, es, count, n, want, r.FragmentCount(want, n)); err != nil {
						t.Errorf("%d bytes: %v", n, err)
					}
				}
			}
		})
	}
}

func trip(t *testing.T, es []*Engine, count *tally, n int, want Protocol, parts int) error {
	for k := range count.sent {
		count.sent[k].Store(0)
	}
	each(t, es, func(self int, e *Engine) error {
		if self == 0 {
			return e.Send(to(0, 1, 1), make([]byte, n), Standard)
		}
		_, err := e.Recv(from(0, 1), make([]byte, n))
		return err
	})
	form, pieces := count.travelled()
	if form != want || pieces != 0 && pieces != parts {
		return fmt.Errorf("went in form %d and %d pieces, and the rules say %d and %d", form, pieces, want, parts)
	}
	return nil
}

// TestMostParts: however long a transport wants messages to go in parts, an engine takes no longer ones.
func TestMostParts(t *testing.T) {
	r, err := ThresholdsOf(fabric.Caps{MaxSend: 4096, Eager: 4096, Read: true})
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int]Protocol{maxFragmented: Fragmented, maxFragmented + 1: RendezvousRead} {
		if got := r.Choose(n, 1<<30, false); got != want {
			t.Errorf("%d bytes: form %d, want %d", n, got, want)
		}
	}
	if _, err := ThresholdsOf(fabric.Caps{MaxSend: maxHeader, Eager: maxHeader}); err == nil {
		t.Error("a transport without room for a byte was taken")
	}
}
