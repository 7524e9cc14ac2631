package main

import (
	"testing"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// TestPass: the list comes back, also with one rank, which sends it to itself.
func TestPass(t *testing.T) {
	for _, ranks := range []int{1, 2, 5} {
		mpitest.Run(t, ranks, func(p *mpi.Process) error { return pass(p.World()) })
	}
}
