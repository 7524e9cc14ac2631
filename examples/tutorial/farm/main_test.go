package main

import (
	"fmt"
	"testing"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// TestHandOut: each task is done once, with one worker and with several.
func TestHandOut(t *testing.T) {
	for _, ranks := range []int{2, 5} {
		mpitest.Run(t, ranks, func(p *mpi.Process) error {
			if p.World().Rank() > 0 {
				return work(p.World())
			}
			primes, err := handOut(p.World())
			if err == nil && primes != 41538 {
				err = fmt.Errorf("%d primes below 500000, want 41538", primes)
			}
			return err
		})
	}
}
