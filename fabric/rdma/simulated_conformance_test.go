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
		return suitePeers(tb, slices.Repeat([]*Transport{tr}, n))
	})
}

// suitePeers returns the peers that the suite tests. The heartbeat is so long that no peer is lost because it is slow. In the
// rules in which a peer ends, the clocks of the others advance until they report the loss.
func suitePeers(tb testing.TB, trs []*Transport) (peers []fabric.Transport) {
	ends := strings.HasSuffix(tb.Name(), "/DownKilled") || strings.HasSuffix(tb.Name(), "/DownBeforeConnect")
	lost := new(sync.WaitGroup)
	for i, tr := range trs {
		tr.Settings.Heartbeat = time.Hour
		if !ends || i == endedPeer {
			peers = append(peers, killable{tr})
			continue
		}
		lost.Add(1)
		peers = append(peers, advancing{tr, lost})
	}
	return peers
}

// endedPeer is the peer that ends in these rules.
const endedPeer = 1

// advancing is the transport of a peer that waits for the loss of endedPeer. Its domains advance their clocks.
type advancing struct {
	*Transport
	lost *sync.WaitGroup // waits until all these peers have lost endedPeer
}

func (a advancing) Open(ctx context.Context, c *fabric.Config) (fabric.Domain, error) {
	d, err := a.Transport.Open(ctx, c)
	if err != nil {
		return nil, err
	}
	return &advancingDomain{domain: d.(*domain), lost: a.lost}, nil
}

// advancingDomain is a domain that advances its clock in each Poll without events, from the connection to endedPeer until the
// loss of that peer. It connects to no other peer meanwhile, so it cannot lose a slow one.
type advancingDomain struct {
	*domain
	waits bool
	lost  *sync.WaitGroup
}

func (d *advancingDomain) Connect(peer int, addr []byte) (fabric.Endpoint, error) {
	d.waits = d.waits || peer == endedPeer
	return d.domain.Connect(peer, addr)
}

func (d *advancingDomain) Poll(evs []fabric.Event) (int, error) {
	n, err := d.domain.Poll(evs)
	if !d.waits || err != nil {
		return n, err
	}
	for _, ev := range evs[:n] {
		if ev.Kind == fabric.PeerDown && ev.Peer == endedPeer {
			d.waits = false
			d.lost.Done()
			d.lost.Wait() // the others must not advance their clocks while this one connects to them
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
