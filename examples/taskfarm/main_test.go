package main

import (
	"bytes"
	"testing"

	"github.com/ibrun/ibrun/internal/mpi4pytest"
	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// farm returns the output with this many ranks and tasks.
func farm(t *testing.T, ranks int, tasks int64) string {
	t.Helper()
	var out bytes.Buffer
	mpitest.Run(t, ranks, func(p *mpi.Process) error { return run(p, &out, tasks) })
	return out.String()
}

// TestTaskfarm counts with more and with fewer tasks than ranks, and without tasks.
func TestTaskfarm(t *testing.T) {
	for tasks, want := range map[int64]string{
		0: "0 primes below 0\n", 1: "168 primes below 1000\n", 10: "1229 primes below 10000\n",
	} {
		for _, ranks := range []int{2, 3, 8} {
			if got := farm(t, ranks, tasks); got != want {
				t.Errorf("%d ranks: %q, want %q", ranks, got, want)
			}
		}
	}
	mpitest.Run(t, 1, func(p *mpi.Process) error {
		if err := run(p, new(bytes.Buffer), 1); err == nil {
			t.Error("one rank handed out tasks to nobody")
		}
		return nil
	})
}

// TestTwin runs the same program in Python.
func TestTwin(t *testing.T) {
	mpi4pytest.CompareLines(t, "main.go", "taskfarm.py")
	if got, want := mpi4pytest.Run(t, 2, "taskfarm.py", "10"), farm(t, 2, 10); got != want {
		t.Errorf("mpi4py: %q; ours: %q", got, want)
	}
}
