package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/hw/hwtest"
	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// TestSplit has two ranks on one socket, one on the other, and one on both.
func TestSplit(t *testing.T) {
	top, err := hw.Read(hwtest.Tree(t, "../../hw/testdata/machines/two-sockets.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	bindings := [][]int{{0, 2}, {1}, {4}, {6, 7}}
	var out bytes.Buffer
	mpitest.RunWith(t, 4, mpitest.Options{Machine: func(rank int) mpitest.Machine {
		return mpitest.Machine{Name: "n0", Top: top, PUs: bindings[rank]}
	}}, func(p *mpi.Process) error { return run(p, &out, "hwloc://NUMANode", false) })
	want := "rank 0 is rank 0 of 2 on its hwloc://NUMANode (first world rank there: 0)\n" +
		"rank 1 is rank 0 of 1 on its hwloc://NUMANode (first world rank there: 1)\n" +
		"rank 2 is rank 1 of 2 on its hwloc://NUMANode (first world rank there: 0)\n" +
		"rank 3 is not restricted to one hwloc://NUMANode\n"
	if out.String() != want {
		t.Errorf("got %s, want %s", out.String(), want)
	}
}

// TestKeys runs on this machine.
func TestKeys(t *testing.T) {
	var out bytes.Buffer
	mpitest.Run(t, 2, func(p *mpi.Process) error { return run(p, &out, "hwloc://Machine", true) })
	if got := out.String(); !strings.HasPrefix(got, "hwloc://Machine true\n") ||
		!strings.HasSuffix(got, "rank 1 is rank 1 of 2 on its hwloc://Machine (first world rank there: 0)\n") {
		t.Errorf("got %s", got)
	}
}
