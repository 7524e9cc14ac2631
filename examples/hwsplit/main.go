// Command hwsplit divides the ranks by the hardware that they are restricted to, and prints the result.
//
//	ibrun -n 4 ./examples/hwsplit
//	ibrun -n 4 --bind-to core ./examples/hwsplit -by hwloc://Core
//	ibrun -n 4 ./examples/hwsplit -keys
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/ibrun/ibrun/mpi"
)

func main() {
	by := flag.String("by", "hwloc://NUMANode", "the type of hardware resource to divide by")
	keys := flag.Bool("keys", false, "also print the hardware information of rank 0")
	flag.Parse()

	mpi.Main(func(_ context.Context, p *mpi.Process) error {
		return run(p, os.Stdout, *by, *keys)
	})
}

// run divides the ranks, and rank 0 writes the part of each rank to out.
func run(p *mpi.Process, out io.Writer, by string, keys bool) error {
	world := p.World()
	hardware, err := p.GetHWResourceInfo()
	if err != nil {
		return err
	}
	if keys && world.Rank() == 0 {
		for key, value := range hardware.All() {
			fmt.Fprintln(out, key, value)
		}
	}
	part, err := split(world, hardware, by)
	if err != nil {
		return err
	}
	mine := []int{world.Rank(), -1, 0} // the first world rank of its part, its rank in the part, and the size of the part
	if part != nil {
		mine[1], mine[2] = part.Rank(), part.Size()
		if err := mpi.Bcast(part, mine[:1], 0); err != nil {
			return fmt.Errorf("within the part: %w", err)
		}
		if err := part.Free(); err != nil {
			return err
		}
	}
	all := make([]int, len(mine)*world.Size())
	if err := mpi.Gather(world, all, mine, 0); err != nil || world.Rank() > 0 {
		return err
	}
	for rank := range world.Size() {
		first, partRank, size := all[3*rank], all[3*rank+1], all[3*rank+2]
		if size == 0 {
			fmt.Fprintf(out, "rank %d is not restricted to one %s\n", rank, by)
		} else {
			fmt.Fprintf(out, "rank %d is rank %d of %d on its %s (first world rank there: %d)\n", rank, partRank, size, by, first)
		}
	}
	return nil
}

// split returns the communicator of the ranks that share one resource with this rank. It returns nil if this rank is not
// restricted to one such resource, or if the machine has none. All ranks must call it: SplitType is collective.
func split(world *mpi.Comm, hardware *mpi.Info, by string) (*mpi.Comm, error) {
	if restricted, _ := hardware.Get(by); restricted != "true" {
		return world.SplitType(mpi.Undefined, -1, nil)
	}
	var info mpi.Info
	if err := info.Set("mpi_hw_resource_type", by); err != nil {
		return nil, err
	}
	return world.SplitType(mpi.TypeResourceGuided, world.Rank(), &info)
}
