package shm_test

import (
	"crypto/rand"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/fabrictest"
	"github.com/ibrun/ibrun/fabric/shm"
)

// peers returns n peers in this process. They share memory as peers in several processes would.
func peers(_ testing.TB, n int) []fabric.Transport {
	tr := &shm.Transport{}
	rand.Read(tr.Key[:])
	for i := range n {
		tr.Local = append(tr.Local, i)
	}
	return slices.Repeat([]fabric.Transport{tr}, n)
}

func TestConformance(t *testing.T) { fabrictest.Run(t, peers) }

func BenchmarkShm(b *testing.B) { fabrictest.Bench(b, peers) }
