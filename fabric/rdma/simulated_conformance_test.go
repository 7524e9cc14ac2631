//go:build linux

package rdma

import (
	"crypto/rand"
	"slices"
	"testing"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/fabrictest"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

// TestSimulatedConformance is TestLiveConformance without a device. It does not count allocations, since the simulated network
// allocates.
func TestSimulatedConformance(t *testing.T) {
	fabrictest.Rules(t, func(_ testing.TB, n int) []fabric.Transport {
		set := Settings{Devices: []string{"a"}, Heartbeat: 750 * time.Millisecond} // DownKilled takes so long
		tr := &Transport{Settings: set, Network: verbstest.NewSimulatedNetwork().Node("a")}
		rand.Read(tr.Key[:])
		return slices.Repeat([]fabric.Transport{killable{tr}}, n)
	})
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
