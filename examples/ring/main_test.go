package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

func TestRing(t *testing.T) {
	const laps = 50
	for _, ranks := range []int{1, 2, 3, 8} {
		var out bytes.Buffer
		mpitest.Run(t, ranks, func(p *mpi.Process) error { return run(p, &out, laps) })
		sum := laps * ranks * (ranks - 1) / 2
		want := fmt.Sprintf("%d laps over %d ranks: the token is %d;", laps, ranks, sum)
		if !strings.HasPrefix(out.String(), want) {
			t.Errorf("got %q, want %q", out.String(), want)
		}
	}
}
