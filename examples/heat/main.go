// Command heat simulates how a hot disc on a cold plate cools, and draws the plate as a PNG picture. Each rank has a band of
// rows. Before every step neighbours exchange the rows at their common edge; at the end rank 0 gathers all bands.
//
//	ibrun -n 4 ./examples/heat -o heat.png
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/ibrun/ibrun/mpi"
)

func main() {
	name := flag.String("o", "heat.png", "file to draw the plate to")
	size := flag.Int("size", 256, "rows and columns of the plate")
	steps := flag.Int("steps", 2000, "steps in time")
	flag.Parse()

	mpi.Main(func(_ context.Context, p *mpi.Process) error {
		var picture bytes.Buffer
		if err := run(p, &picture, *size, *steps); err != nil || p.World().Rank() > 0 {
			return err
		}
		return os.WriteFile(*name, picture.Bytes(), 0o666)
	})
}

// run simulates a plate of size by size points for the given number of steps. Rank 0 writes the picture to out.
func run(p *mpi.Process, out io.Writer, size, steps int) error {
	world := p.World()
	if size < world.Size() {
		return fmt.Errorf("a plate of %d rows is too small for %d ranks", size, world.Size())
	}
	b := newBand(size, firstRow(world, size, world.Rank()), firstRow(world, size, world.Rank()+1))
	for range steps {
		if err := b.exchange(world); err != nil {
			return fmt.Errorf("exchanging edges: %w", err)
		}
		b.step()
	}
	counts, displs := make([]int, world.Size()), make([]int, world.Size())
	for r := range counts {
		displs[r] = firstRow(world, size, r) * size
		counts[r] = firstRow(world, size, r+1)*size - displs[r]
	}
	var plate []float64 // at rank 0 only
	if world.Rank() == 0 {
		plate = make([]float64, size*size)
	}
	if err := mpi.Gatherv(world, plate, counts, displs, b.own(), 0); err != nil {
		return fmt.Errorf("gathering the plate: %w", err)
	}
	if world.Rank() > 0 {
		return nil
	}
	return draw(out, plate, size)
}

// firstRow returns the first row of a rank. The rows are distributed as evenly as possible.
func firstRow(world *mpi.Comm, size, rank int) int { return size * rank / world.Size() }
