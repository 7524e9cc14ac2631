package mpi_test

import (
	"errors"
	"fmt"
	"log"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// The leaders of the two groups know each other by the ranks that they have in World.
func ExampleComm_CreateIntercomm() {
	err := mpitest.Ranks(3, func(p *mpi.Process) error {
		world := p.World()
		oceans := world.Rank() > 0 // rank 0 computes the air, the others the ocean
		color, other := 0, 1
		if oceans {
			color, other = 1, 0
		}
		own, err := world.Split(color, 0)
		if err != nil {
			return err
		}
		both, err := own.CreateIntercomm(0, world, other, 0)
		if err != nil {
			return err
		}
		wind := []float64{12.5}
		root := 0 // in the other group
		if !oceans {
			root = mpi.Root
		}
		if err := mpi.Bcast(both, wind, root); err != nil {
			return err
		}
		if world.Rank() == 2 {
			fmt.Println("the ocean has received", wind)
		}
		return errors.Join(both.Free(), own.Free())
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: the ocean has received [12.5]
}

// Only the ranks of the group call CreateGroup.
func ExampleComm_CreateGroup() {
	err := mpitest.Ranks(5, func(p *mpi.Process) error {
		even, err := p.World().Group().RangeIncl(mpi.Range{First: 4, Last: 0, Stride: -2})
		if err != nil || even.Rank() == mpi.Undefined {
			return err
		}
		c, err := p.World().CreateGroup(even, 0)
		if err != nil {
			return err
		}
		if c.Rank() == 0 {
			fmt.Printf("rank %d of World is rank 0 of %d\n", p.World().Rank(), c.Size())
		}
		return c.Free()
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: rank 4 of World is rank 0 of 3
}

// A handler is called when a call fails. What it returns is what the call returns.
func ExampleNewErrorHandler() {
	err := mpitest.Ranks(1, func(p *mpi.Process) error {
		world := p.World()
		err := world.SetErrorHandler(mpi.NewErrorHandler(func(c *mpi.Comm, err *mpi.Error) error {
			return fmt.Errorf("step 3: %w", err)
		}))
		if err != nil {
			return err
		}
		fmt.Println(mpi.Send(world, []int{1}, 0, -1))
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: step 3: mpi: Send at rank 0: invalid tag: tag -1 is out of range (0 to 2147483647)
}
