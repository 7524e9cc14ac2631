package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

func TestPi(t *testing.T) {
	for _, ranks := range []int{1, 2, 3, 4, 7} {
		var out bytes.Buffer
		mpitest.Run(t, ranks, func(p *mpi.Process) error { return run(p, &out, 2_000_000) })
		if got := out.String(); !strings.HasPrefix(got, "pi = 3.141592653589") || strings.Count(got, "\n") != 1 {
			t.Errorf("%d ranks: %q", ranks, got)
		}
	}
}

// TestFewStrips has ranks without strips.
func TestFewStrips(t *testing.T) {
	var out bytes.Buffer
	mpitest.Run(t, 3, func(p *mpi.Process) error { return run(p, &out, 1) })
	if got, want := out.String(), "pi = 3.200000000000000\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
