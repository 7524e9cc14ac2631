package main

import (
	"fmt"
	"math"
	"testing"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// TestStats: every rank has the mean, however many ranks there are, and rank 0 has the deviation.
func TestStats(t *testing.T) {
	for _, ranks := range []int{1, 2, 3, 8} {
		mpitest.Run(t, ranks, func(p *mpi.Process) error {
			mean, deviation, err := stats(p.World(), measure(200*ranks), 200)
			if err != nil {
				return err
			}
			want := 0.0 // at ranks other than 0
			if p.World().Rank() == 0 {
				want = math.Sqrt(833.25)
			}
			if math.Abs(mean-49.5) > 1e-9 || math.Abs(deviation-want) > 1e-9 {
				return fmt.Errorf("mean %v, deviation %v", mean, deviation)
			}
			return nil
		})
	}
}
