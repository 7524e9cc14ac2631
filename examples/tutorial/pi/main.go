// Command pi computes pi. Each rank computes a part of the sum.
package main

import (
	"context"
	"fmt"

	"github.com/ibrun/ibrun/mpi"
)

func main() {
	mpi.Main(func(_ context.Context, p *mpi.Process) error {
		world := p.World()
		pi, err := compute(world, 10_000_000)
		if err != nil {
			return err
		}
		if world.Rank() == 0 {
			fmt.Printf("pi = %.9f\n", pi)
		}
		return nil
	})
}

// compute integrates 4/(1+x²) from 0 to 1 in steps. Rank r has the steps r, r+size, r+2*size and so on.
func compute(world *mpi.Comm, steps int) (pi float64, err error) {
	sum := 0.0
	for i := world.Rank(); i < steps; i += world.Size() {
		x := (float64(i) + 0.5) / float64(steps)
		sum += 4 / (1 + x*x) / float64(steps)
	}
	return mpi.AllreduceOne(world, sum, mpi.Sum)
}
