// Command ring sends a list of numbers around: from each rank to the next one, and from the last one back to rank 0.
package main

import (
	"context"
	"fmt"

	"github.com/ibrun/ibrun/mpi"
)

func main() {
	mpi.Main(func(_ context.Context, p *mpi.Process) error {
		return pass(p.World())
	})
}

const tag = 0

// pass sends the list around. Each rank writes its number into its place.
func pass(world *mpi.Comm) error {
	rank, size := world.Rank(), world.Size()
	next, previous := (rank+1)%size, (rank+size-1)%size

	list := make([]int, size)
	if rank > 0 {
		if _, err := mpi.Recv(world, list, previous, tag); err != nil {
			return err
		}
	}
	list[rank] = 10 * rank
	if err := mpi.Send(world, list, next, tag); err != nil {
		return err
	}
	if rank == 0 {
		if _, err := mpi.Recv(world, list, previous, tag); err != nil {
			return err
		}
		fmt.Println("back at rank 0:", list)
	}
	return nil
}
