package main

import (
	"fmt"
	"math"
	"testing"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// TestCool: the heat does not depend on the number of ranks. Each message carries a row of another rank, so a wrong one shows.
func TestCool(t *testing.T) {
	want := 0.0
	for _, ranks := range []int{1, 2, 4, 6} {
		mpitest.Run(t, ranks, func(p *mpi.Process) error {
			heat, err := cool(p.World())
			switch {
			case err != nil:
				return err
			case ranks == 1:
				want = heat
			case math.Abs(heat-want) > 1e-6:
				return fmt.Errorf("%d ranks: heat %v; one rank: %v", ranks, heat, want)
			}
			return nil
		})
	}
}
