package main

import (
	"bytes"
	"image/png"
	"testing"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// TestHeat checks that the picture is the same, byte for byte, for any number of ranks.
func TestHeat(t *testing.T) {
	const size, steps = 33, 40
	pictures := map[int][]byte{}
	for _, ranks := range []int{1, 2, 3, 8, 33} {
		var out bytes.Buffer
		mpitest.Run(t, ranks, func(p *mpi.Process) error { return run(p, &out, size, steps) })
		pictures[ranks] = out.Bytes()
		if !bytes.Equal(pictures[ranks], pictures[1]) {
			t.Errorf("%d ranks draw a different picture than one rank", ranks)
		}
	}
	img, err := png.Decode(bytes.NewReader(pictures[1]))
	if err != nil {
		t.Fatal(err)
	}
	red := func(x, y int) int { r, _, _, _ := img.At(x, y).RGBA(); return int(r >> 8) }
	if middle, edge := red(size/2, size/2), red(0, size/2); middle < 100 || middle == 255 || edge > 20 {
		t.Errorf("red is %d in the middle and %d at the edge; the disc should have cooled, the edge stayed nearly cold", middle, edge)
	}
	for x := range size { // rounding may differ by one, as sums are taken in another order
		if a, b := red(x, size/2), red(size/2, x); a > b+1 || b > a+1 {
			t.Errorf("red is %d at (%d, middle) and %d at (middle, %d)", a, x, b, x)
		}
	}
}

func TestPlateTooSmall(t *testing.T) {
	mpitest.Run(t, 3, func(p *mpi.Process) error {
		if err := run(p, new(bytes.Buffer), 2, 1); err == nil {
			t.Error("2 rows were distributed to 3 ranks")
		}
		return nil
	})
}
