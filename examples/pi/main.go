// Command pi computes pi as the area under 4/(1+x²) between 0 and 1. The area is divided into strips, each rank sums every
// n-th strip, and one Reduce adds the sums of the ranks.
//
//	ibrun -n 4 ./examples/pi
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/ibrun/ibrun/mpi"
)

func main() {
	strips := flag.Int("strips", 2_000_000, "number of strips")
	flag.Parse()

	mpi.Main(func(_ context.Context, p *mpi.Process) error {
		return run(p, os.Stdout, *strips)
	})
}

// run integrates with the given number of strips. Rank 0 writes the result to out.
func run(p *mpi.Process, out io.Writer, strips int) error {
	world := p.World()

	width := 1 / float64(strips)
	mine := make([]float64, 1)
	for i := world.Rank(); i < strips; i += world.Size() {
		x := (float64(i) + 0.5) * width // the middle of the strip
		mine[0] += 4 / (1 + x*x) * width
	}

	pi := make([]float64, 1)
	if err := mpi.Reduce(world, pi, mine, mpi.Sum, 0); err != nil {
		return fmt.Errorf("adding the sums: %w", err)
	}
	if world.Rank() > 0 {
		return nil
	}
	_, err := fmt.Fprintf(out, "pi = %.15f\n", pi[0])
	return err
}
