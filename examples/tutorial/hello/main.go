// Command hello prints a line for each rank.
package main

import (
	"context"
	"fmt"

	"github.com/ibrun/ibrun/mpi"
)

func main() {
	mpi.Main(func(_ context.Context, p *mpi.Process) error {
		world := p.World()
		fmt.Printf("hello from rank %d of %d\n", world.Rank(), world.Size())
		return nil
	})
}
