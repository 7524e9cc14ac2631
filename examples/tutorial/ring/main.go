// Command ring sends a list of numbers around: from each rank to the next one, and from the last one back to rank 0.
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
	if err := pass(p.World()); err != nil {
		log.Fatal(err)
	}
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
