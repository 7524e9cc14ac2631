// Command sum adds up the ranks: the program of docs/coming-from-c.md.
package main

import (
	"context"
	"fmt"

	"github.com/ibrun/ibrun/mpi"
)

func main() {
	mpi.Main(func(_ context.Context, p *mpi.Process) error {
		return add(p.World())
	})
}

// add adds up the ranks. Rank 0 prints the sum.
func add(world *mpi.Comm) error {
	sum, err := mpi.ReduceOne(world, world.Rank(), mpi.Sum, 0)
	if err != nil {
		return err
	}
	if world.Rank() == 0 {
		fmt.Printf("sum of %d ranks: %d\n", world.Size(), sum)
	}
	return world.Barrier()
}
