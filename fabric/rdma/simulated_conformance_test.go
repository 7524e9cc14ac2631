//go:build linux

package rdma

import (
	"crypto/rand"
	"slices"
	"strings"
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
		set := Settings{Devices: []string{"a"}, Heartbeat: heartbeatOf(tb)}
		tr := &Transport{Settings: set, Network: verbstest.NewSimulatedNetwork().Node("a")}
		rand.Read(tr.Key[:])
		return slices.Repeat([]fabric.Transport{killable{tr}}, n)
	})
}

// heartbeatOf returns the heartbeat of a test of the suite. Some wait until a peer is lost. In the others none must be lost,
// however long it stands still.
func heartbeatOf(tb testing.TB) time.Duration {
	if strings.HasSuffix(tb.Name(), "/DownKilled") || strings.HasSuffix(tb.Name(), "/DownBeforeConnect") {
		return 3 * time.Second
	}
	return time.Hour
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
