package main

import (
	"fmt"
	"math"
	"testing"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// TestCompute: every rank has pi, however many ranks there are.
func TestCompute(t *testing.T) {
	for _, ranks := range []int{1, 2, 3, 8} {
		mpitest.Run(t, ranks, func(p *mpi.Process) error {
			pi, err := compute(p.World(), 10_000)
			if err == nil && math.Abs(pi-math.Pi) > 1e-8 {
				err = fmt.Errorf("pi is %v", pi)
			}
			return err
		})
	}
}
