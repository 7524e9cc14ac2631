// Command hello prints a line for each rank.
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
	fmt.Printf("hello from rank %d of %d\n", world.Rank(), world.Size())
}
