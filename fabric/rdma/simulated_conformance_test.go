//go:build linux

package rdma

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/fabrictest"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

// TestSimulatedConformance is TestLiveConformance without a device. It does not count allocations, since the simulated network
// allocates.
func TestSimulatedConformance(t *testing.T) {
	fabrictest.Rules(t, func(tb testing.TB, n int) []fabric.Transport {
		tr := &Transport{Settings: Settings{Devices: []string{"a"}}, Network: verbstest.NewSimulatedNetwork().Node("a")}
		rand.Read(tr.Key[:])
		return patient(tb, slices.Repeat([]*Transport{tr}, n))
	})
}

// patient prepares the transports of peers for the suite. None of them loses another, however long that one stands still. But in
// the rules in which a peer goes, time passes for the others until they have noticed.
func patient(tb testing.TB, trs []*Transport) (peers []fabric.Transport) {
	goes := strings.HasSuffix(tb.Name(), "/DownKilled") || strings.HasSuffix(tb.Name(), "/DownBeforeConnect")
	lost := new(sync.WaitGroup)
	for i, tr := range trs {
		tr.Settings.Heartbeat = time.Hour
		if !goes || i == gonePeer {
			peers = append(peers, killable{tr})
			continue
		}
		lost.Add(1)
		peers = append(peers, hasty{tr, lost})
	}
	return peers
}

// gonePeer is the peer that goes in the rules in which time passes.
const gonePeer = 1

// hasty is a transport of a peer that does nothing but wait for the loss of another.
type hasty struct {
	*Transport
	lost *sync.WaitGroup // waits until all of them have lost the one that has gone
}

func (h hasty) Open(ctx context.Context, c *fabric.Config) (fabric.Domain, error) {
	d, err := h.Transport.Open(ctx, c)
	if err != nil {
		return nil, err
	}
	return &hastyDomain{domain: d.(*domain), lost: h.lost}, nil
}

// hastyDomain is a domain for which time passes in each Poll, once it has connected to the peer that has gone, and until that one
// is lost. It connects to no other peer meanwhile, so it cannot lose one that is merely slow.
type hastyDomain struct {
	*domain
	waits bool
	lost  *sync.WaitGroup
}

func (d *hastyDomain) Connect(peer int, addr []byte) (fabric.Endpoint, error) {
	d.waits = d.waits || peer == gonePeer
	return d.domain.Connect(peer, addr)
}

func (d *hastyDomain) Poll(evs []fabric.Event) (int, error) {
	n, err := d.domain.Poll(evs)
	if !d.waits || err != nil {
		return n, err
	}
	for _, ev := range evs[:n] {
		if ev.Kind == fabric.PeerDown && ev.Peer == gonePeer {
			d.waits = false
			d.lost.Done()
			d.lost.Wait() // the others do not wait for this one, and time must not pass for them while it connects to them
			return n, nil
		}
	}
	if n == 0 {
		letPass(d.domain)
	}
	return n, nil
}

// killable is a transport on a simulated network.
type killable struct{ *Transport }

var _ fabrictest.Killer = killable{}

// Kill removes the queue pairs of a domain, and notifies no peer.
func (killable) Kill(fd fabric.Domain) error {
	d := fd.(*domain)
	d.closed = true
	return d.release()
}
