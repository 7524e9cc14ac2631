//go:build linux

package rdma

import (
	"crypto/rand"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/fabrictest"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

// TestSimulatedConformance is TestLiveConformance without a device. It does not count allocations, since the simulated network
// allocates.
func TestSimulatedConformance(t *testing.T) {
	fabrictest.Rules(t, func(_ testing.TB, n int) []fabric.Transport {
		tr := &Transport{Settings: Settings{Devices: []string{"a"}}, openDevice: verbstest.NewSimulatedNetwork().Open}
		rand.Read(tr.Key[:])
		return slices.Repeat([]fabric.Transport{tr}, n)
	})
}
