package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/internal/mpi4pytest"
	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// heat returns the output with parts of this size.
func heat(t *testing.T, ranks, rows, cols, steps int) string {
	t.Helper()
	var out bytes.Buffer
	mpitest.Run(t, ranks, func(p *mpi.Process) error { return run(p.World(), &out, rows, cols, steps) })
	return out.String()
}

// TestHalo computes plates of the same size on one rank and on several. The number of steps is larger than the plate, so that
// every cell depends on all halos.
func TestHalo(t *testing.T) {
	const rows, cols, steps = 12, 24, 40
	whole, _, _ := strings.Cut(heat(t, 1, rows, cols, steps), " on ")
	for _, dims := range [][2]int{{2, 1}, {2, 2}, {3, 2}, {4, 2}} {
		want := fmt.Sprintf("%s on %d x %d ranks\n", whole, dims[0], dims[1])
		if got := heat(t, dims[0]*dims[1], rows/dims[0], cols/dims[1], steps); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestTwin runs the same program in Python.
func TestTwin(t *testing.T) {
	mpi4pytest.CompareLines(t, "main.go", "halo.py")
	if got, want := mpi4pytest.Run(t, 4, "halo.py", "5", "7", "20"), heat(t, 4, 5, 7, 20); got != want {
		t.Errorf("mpi4py: %q; ours: %q", got, want)
	}
}
