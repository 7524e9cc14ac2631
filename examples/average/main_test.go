package main

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// TestTrain checks that training finds the line of the points, and that all ranks have bitwise equal results.
func TestTrain(t *testing.T) {
	for _, ranks := range []int{1, 2, 3, 5} {
		lines := make([][]float32, ranks)
		mpitest.Run(t, ranks, func(p *mpi.Process) (err error) {
			lines[p.World().Rank()], err = train(p.World(), 30)
			return err
		})
		for r, line := range lines {
			if !slices.Equal(line, lines[0]) {
				t.Errorf("%d ranks: rank %d has %v, rank 0 %v", ranks, r, line, lines[0])
			}
		}
		if line := lines[0]; math.Abs(float64(line[0]-3)) > 0.02 || math.Abs(float64(line[1]+2)) > 0.02 {
			t.Errorf("%d ranks: found %v, want about [3 -2]", ranks, line)
		}
	}
}

func TestRun(t *testing.T) {
	var out bytes.Buffer
	mpitest.Run(t, 2, func(p *mpi.Process) error { return run(p, &out, 30) })
	var slope, offset float64
	if _, err := fmt.Sscanf(out.String(), "y = %f x %f\n", &slope, &offset); err != nil {
		t.Errorf("%q: %v", out.String(), err)
	}
}
