// Command average fits a line to points as data-parallel training fits a model. Every rank has its own points and takes some
// steps of gradient descent on them; then all ranks average their parameters. This is repeated.
//
//	ibrun -n 4 ./examples/average
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"

	"github.com/ibrun/ibrun/mpi"
)

func main() {
	rounds := flag.Int("rounds", 100, "how often the ranks average")
	flag.Parse()

	mpi.Main(func(_ context.Context, p *mpi.Process) error {
		return run(p, os.Stdout, *rounds)
	})
}

// run trains, and rank 0 writes the resulting line to out.
func run(p *mpi.Process, out io.Writer, rounds int) error {
	line, err := train(p.World(), rounds)
	if err != nil || p.World().Rank() > 0 {
		return err
	}
	_, err = fmt.Fprintf(out, "y = %.3f x %+.3f\n", line[0], line[1])
	return err
}

// train returns the slope and the offset, which are the same on every rank.
func train(world *mpi.Comm, rounds int) ([]float32, error) {
	mine := points(world.Rank(), 1000)
	line := make([]float32, 2)
	if world.Rank() == 0 {
		line[0], line[1] = rand.Float32(), rand.Float32()
	}
	if err := mpi.Bcast(world, line, 0); err != nil { // all start from the same guess
		return nil, fmt.Errorf("broadcasting the first guess: %w", err)
	}
	for range rounds {
		for range 5 {
			descend(line, mine)
		}
		if err := mpi.Allreduce(world, line, line, mpi.Sum); err != nil { // the same slice twice: in place
			return nil, fmt.Errorf("averaging: %w", err)
		}
		for i := range line {
			line[i] /= float32(world.Size())
		}
	}
	return line, nil
}

// point is one sample.
type point struct{ x, y float32 }

// points returns samples of y = 3x - 2 with noise. They depend only on the rank.
func points(rank, n int) []point {
	random := rand.New(rand.NewPCG(1, uint64(rank)))
	ps := make([]point, n)
	for i := range ps {
		x := random.Float32()*2 - 1
		ps[i] = point{x, 3*x - 2 + 0.1*float32(random.NormFloat64())}
	}
	return ps
}

// descend takes one step of gradient descent on the mean square error.
func descend(line []float32, ps []point) {
	const rate = 0.1
	var slope, offset float32
	for _, p := range ps {
		off := line[0]*p.x + line[1] - p.y
		slope += off * p.x
		offset += off
	}
	line[0] -= rate * 2 * slope / float32(len(ps))
	line[1] -= rate * 2 * offset / float32(len(ps))
}
