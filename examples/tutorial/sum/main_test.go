package main

import (
	"testing"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// TestAdd runs the program with one rank and with several.
func TestAdd(t *testing.T) {
	for _, ranks := range []int{1, 4} {
		mpitest.Run(t, ranks, func(p *mpi.Process) error { return add(p.World()) })
	}
}
