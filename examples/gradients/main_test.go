package main

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/ibrun/ibrun/internal/mpi4pytest"
	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// sum returns the output with this many ranks, layers and gradients.
func sum(t *testing.T, ranks, layers, width int) string {
	t.Helper()
	var out bytes.Buffer
	mpitest.Run(t, ranks, func(p *mpi.Process) error { return run(p, &out, layers, width) })
	return out.String()
}

// TestGradients compares with sums that one goroutine computes.
func TestGradients(t *testing.T) {
	const layers, width = 5, 1000
	for _, ranks := range []int{1, 2, 3, 8} {
		want := ""
		for layer := range layers {
			checksum := 0.0
			for rank := range ranks {
				for i, x := range compute(layer, rank, width) {
					checksum += x * float64(i%7)
				}
			}
			want += fmt.Sprintf("layer %d: %.0f\n", layer, checksum)
		}
		if got := sum(t, ranks, layers, width); got != want {
			t.Errorf("%d ranks: %q, want %q", ranks, got, want)
		}
	}
}

// TestTwin runs the same program in Python.
func TestTwin(t *testing.T) {
	mpi4pytest.CompareLines(t, "main.go", "gradients.py")
	if got, want := mpi4pytest.Run(t, 2, "gradients.py", "4", "1000"), sum(t, 2, 4, 1000); got != want {
		t.Errorf("mpi4py: %q; ours: %q", got, want)
	}
}
