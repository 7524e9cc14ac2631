package rdma_test

import (
	"crypto/rand"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/fabrictest"
	"github.com/ibrun/ibrun/fabric/rdma"
	"github.com/ibrun/ibrun/soft-roce/live"
)

// peers returns the transports of n peers with a key of their own.
func peers(tb testing.TB, n int) []fabric.Transport {
	t := &rdma.Transport{Settings: rdma.Settings{Devices: []string{live.Device(tb)}}}
	rand.Read(t.Key[:])
	return slices.Repeat([]fabric.Transport{t}, n)
}

func TestLiveConformance(t *testing.T) {
	live.NoNAK(t)
	fabrictest.Run(t, peers)
}
