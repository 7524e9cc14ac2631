package proto

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/mpi/internal/protocols"
	"github.com/ibrun/ibrun/mpi/internal/wire"
)

// kindCounter counts the messages of a transport, by kind.
type kindCounter struct {
	fabric.Transport
	sent [wire.KindCount]atomic.Int32
}

func (c *kindCounter) Open(ctx context.Context, cfg *fabric.Config) (fabric.Domain, error) {
	d, err := c.Transport.Open(ctx, cfg)
	if p, ok := d.(fabric.CooperativeCopier); ok {
		return struct {
			countingDomain
			fabric.CooperativeCopier
		}{countingDomain{d, c}, p}, err
	}
	return countingDomain{d, c}, err
}

type countingDomain struct {
	fabric.Domain
	c *kindCounter
}

func (d countingDomain) Connect(peer int, addr []byte) (fabric.Endpoint, error) {
	ep, err := d.Domain.Connect(peer, addr)
	return countingEndpoint{ep, d.c}, err
}

type countingEndpoint struct {
	fabric.Endpoint
	c *kindCounter
}

func (e countingEndpoint) Send(header, payload []byte) error {
	err := e.Endpoint.Send(header, payload)
	if err == nil {
		e.c.sent[header[0]].Add(1)
	}
	return err
}

// protocol returns the protocol that the counted messages show, and the number of pieces; 0 if they
// do not show that.
func (c *kindCounter) protocol() (p protocols.Protocol, pieces int) {
	n := func(k wire.Kind) int { return int(c.sent[k].Load()) }
	switch {
	case n(wire.Eager) > 0:
		return protocols.Eager, n(wire.Eager)
	case n(wire.FirstFrag) > 0:
		return protocols.Fragmented, n(wire.FirstFrag) + n(wire.Frag)
	case n(wire.DataRequest) > 0:
		return protocols.RendezvousCopy, n(wire.Data)
	case n(wire.Assist) > 0:
		return protocols.RendezvousShared, 0
	}
	return protocols.RendezvousRead, 0
}

// TestProtocols: around each length at which the thresholds change the protocol, an engine uses the
// protocol that they give.
func TestProtocols(t *testing.T) {
	for name, tw := range map[string]variant{
		"read": {}, "shared": {pairing: true}, "copied": {noRead: true}, "fragments": {fragments: true},
		"fragments, then shared": {fragments: true, pairing: true}, "fragments, then copied": {fragments: true, noRead: true},
	} {
		t.Run(name, func(t *testing.T) {
			count := &kindCounter{}
			es := open(t, 2, func(tr fabric.Transport) fabric.Transport {
				count.Transport = tw.wrap(tr)
				return count
			}, nil)
			r := es[0].links.paths[0].thresholds
			for _, edge := range []int{
				1, r.MaxEager, r.MaxEager + r.FragmentSize, r.Stream, protocols.MinShared,
				r.Stream + protocols.MinShared, 16 << 10, r.MaxData, 2 * r.MaxData, 1 << 20,
			} {
				for n := max(edge-1, 0); n <= edge+1; n++ {
					want := r.Choose(n, tw.pairing)
					if err := checkProtocol(t, es, count, n, want, r.FragmentCount(want, n)); err != nil {
						t.Errorf("%d bytes: %v", n, err)
					}
				}
			}
		})
	}
}

// TestForcedProtocols: messages of all lengths take the protocol that the configuration names, or
// the nearest that is possible, and those of a context the one that its hints name.
func TestForcedProtocols(t *testing.T) {
	for name, tw := range map[string]variant{
		"read": {}, "shared": {pairing: true}, "copied": {noRead: true}, "fragments": {fragments: true, pairing: true},
	} {
		for forced := range protocols.Count {
			t.Run(fmt.Sprintf("%s/%d", name, forced), func(t *testing.T) {
				count := &kindCounter{}
				es := open(t, 2, func(tr fabric.Transport) fabric.Transport {
					count.Transport = tw.wrap(tr)
					return count
				}, func(c *Config) { c.Forced = &protocols.Forced{Protocol: forced} })
				hinted := (forced + 1) % protocols.Count
				for _, p := range []protocols.Protocol{forced, hinted} {
					x := es[0].links.paths[0].thresholds
					for _, n := range []int{1, 4095, x.FragmentSize, x.FragmentSize + 1, x.MaxData, x.MaxData + 1, 1 << 20} {
						want := x.Nearest(p, n, true, tw.pairing)
						if err := checkProtocol(t, es, count, n, want, x.FragmentCount(want, n)); err != nil {
							t.Errorf("%d bytes by protocol %d: %v", n, p, err)
						}
					}
					es[0].Contexts().SetHints(testContext, Hints{EagerLimit: -1, Rail: -1, Forced: &protocols.Forced{Protocol: hinted}})
				}
			})
		}
	}
}

func checkProtocol(t *testing.T, es []*Engine, count *kindCounter, n int, want protocols.Protocol, wantPieces int) error {
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
	got, pieces := count.protocol()
	if got != want || pieces != 0 && pieces != wantPieces {
		return fmt.Errorf("protocol %d with %d pieces, want %d with %d", got, pieces, want, wantPieces)
	}
	return nil
}
