// Command pi computes pi. Each rank computes a part of the sum.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/ibrun/ibrun/mpi"
)

func main() {
	p, err := mpi.Init(context.Background(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer p.Finalize()
	world := p.World()
	pi, err := compute(world, 10_000_000)
	if err != nil {
		log.Fatal(err)
	}
	if world.Rank() == 0 {
		fmt.Printf("pi = %.9f\n", pi)
	}
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
