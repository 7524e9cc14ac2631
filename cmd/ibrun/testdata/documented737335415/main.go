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

	mine := []int{world.Rank()}
	sum := make([]int, 1)
	if err := mpi.Allreduce(world, sum, mine, mpi.Sum); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("rank %d of %d: the sum of all ranks is %d\n", world.Rank(), world.Size(), sum[0])
}
