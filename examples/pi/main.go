// Command pi works out pi as the area under 4/(1+x²) between 0 and 1. The area is cut into strips, each rank adds
// up every n-th of them, and one Reduce adds up what the ranks have.
//
//	ibrun -n 4 ./examples/pi
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/ibrun/ibrun/mpi"
)

func main() {
	strips := flag.Int("strips", 2_000_000, "number of strips")
	flag.Parse()

	p, err := mpi.Init(context.Background(), nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := run(p, os.Stdout, *strips); err != nil {
		log.Fatal(err) // leaving before Finalize ends the whole job
	}
	if err := p.Finalize(); err != nil {
		log.Fatal(err)
	}
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
		return fmt.Errorf("adding up the parts: %w", err)
	}
	if world.Rank() > 0 {
		return nil
	}
	_, err := fmt.Fprintf(out, "pi = %.15f\n", pi[0])
	return err
}
