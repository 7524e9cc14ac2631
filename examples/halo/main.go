// Command halo computes how heat leaves a plate. Each rank has a part of the plate with one layer of cells around it, the halo,
// into which it receives the outer cells of its neighbors before each step. halo.py is the same program in Python.
//
//	ibrun -n 4 ./examples/halo
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/ibrun/ibrun/mpi"
)

const tagHalo = 1

func main() {
	rows := flag.Int("rows", 500, "the number of rows of each rank's part")
	cols := flag.Int("cols", 500, "the number of columns of each rank's part")
	steps := flag.Int("steps", 100, "the number of steps")
	flag.Parse()

	mpi.Main(func(_ context.Context, p *mpi.Process) error {
		return run(p.World(), os.Stdout, *rows, *cols, *steps)
	})
}

// run computes steps with rows x cols cells for each rank. Rank 0 writes the heat that is left to out.
func run(world *mpi.Comm, out io.Writer, rows, cols, steps int) error {
	// communication begins
	dims, err := mpi.DimsCreate(world.Size(), 0, 0)
	if err != nil {
		return err
	}
	grid, err := world.CartCreate(dims, []bool{false, false}, mpi.Reorder)
	if err != nil {
		return err
	}
	// communication ends
	plate, next := newPlate(rows, cols), newPlate(rows, cols)
	for range steps {
		if err := exchange(grid, plate.cells, rows, cols); err != nil {
			return err
		}
		plate.step(next)
		plate, next = next, plate
	}
	// communication begins
	heat, err := mpi.AllreduceOne(grid, plate.heat(), mpi.Sum)
	if err != nil {
		return err
	}
	// communication ends
	if grid.Rank() == 0 {
		if _, err = fmt.Fprintf(out, "heat %.6f on %d x %d ranks\n", heat, dims[0], dims[1]); err != nil {
			return err
		}
	}
	// communication begins
	return grid.Free()
	// communication ends
}

// exchange sends the outer cells in both dimensions to the neighbors, and receives theirs into the halo. At the edge of the plate
// there is no neighbor, and the halo stays cold.
func exchange(grid *mpi.Comm, cells mpi.Array[float64], rows, cols int) error {
	// communication begins
	for dim, last := range []int{rows, cols} {
		low, high, err := grid.CartShift(dim, 1)
		if err == nil {
			_, err = grid.Sendrecv(cells.Face(dim, last), high, tagHalo, cells.Face(dim, 0), low, tagHalo)
		}
		if err == nil {
			_, err = grid.Sendrecv(cells.Face(dim, 1), low, tagHalo, cells.Face(dim, last+1), high, tagHalo)
		}
		if err != nil {
			return err
		}
	}
	// communication ends
	return nil
}

// plate is a part of the plate, with its halo.
type plate struct {
	cells      mpi.Array[float64]
	rows, cols int // without the halo
}

// newPlate returns a part of which every cell is 1 warm, and the halo is cold.
func newPlate(rows, cols int) *plate {
	p := &plate{mpi.ArrayOf(make([]float64, (rows+2)*(cols+2)), rows+2, cols+2), rows, cols}
	for i := 1; i <= rows; i++ {
		for j := 1; j <= cols; j++ {
			p.cells.Set(1, i, j)
		}
	}
	return p
}

// step sets each cell of next to the mean of its neighbors.
func (p *plate) step(next *plate) {
	x, y, width := p.cells.Slice(), next.cells.Slice(), p.cols+2
	for i := 1; i <= p.rows; i++ {
		for at := i*width + 1; at <= i*width+p.cols; at++ {
			y[at] = (x[at-width] + x[at+width] + x[at-1] + x[at+1]) / 4
		}
	}
}

// heat returns the sum of the cells without the halo.
func (p *plate) heat() (sum float64) {
	x, width := p.cells.Slice(), p.cols+2
	for i := 1; i <= p.rows; i++ {
		for _, c := range x[i*width+1 : i*width+1+p.cols] {
			sum += c
		}
	}
	return sum
}
