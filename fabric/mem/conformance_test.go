package mem_test

import (
	"slices"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/fabrictest"
	"github.com/ibrun/ibrun/fabric/mem"
)

// peers returns the transports of n peers at a hub of their own.
func peers(_ testing.TB, n int) []fabric.Transport {
	return slices.Repeat([]fabric.Transport{mem.NewHub(n).Transport()}, n)
}

func TestConformance(t *testing.T) { fabrictest.Run(t, peers) }
