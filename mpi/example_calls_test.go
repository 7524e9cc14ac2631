package mpi_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// One number needs no slice.
func ExampleAllreduceOne() {
	err := mpitest.Ranks(4, func(p *mpi.Process) error {
		largest, err := mpi.AllreduceOne(p.World(), p.World().Rank()*10, mpi.Max)
		if err == nil && p.World().Rank() == 1 {
			fmt.Println("the largest is", largest)
		}
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: the largest is 30
}

// A receive ends when its context does. Here nobody sends.
func ExampleRecvContext() {
	err := mpitest.Ranks(1, func(p *mpi.Process) error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		x := make([]int, 1)
		_, err := mpi.RecvContext(ctx, p.World(), x, 0, 0)
		fmt.Println(err != nil, ctx.Err())
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: true context deadline exceeded
}

// A message whose parts become ready one after the other, in any order, for example each computed by a goroutine.
func ExamplePsendInit() {
	err := mpitest.Ranks(2, func(p *mpi.Process) error {
		world := p.World()
		x := make([]int, 6) // 3 partitions of 2 elements
		r, err := mpi.PsendInit(world, x, 3, 1, 0)
		if world.Rank() == 1 {
			r, err = mpi.PrecvInit(world, x, 3, 0, 0)
		}
		if err != nil {
			return err
		}
		if err := r.Start(); err != nil {
			return err
		}
		for _, part := range []int{2, 0, 1} {
			if world.Rank() == 0 {
				x[2*part], x[2*part+1] = part, part*part
				if err := r.Pready(part); err != nil {
					return err
				}
			}
		}
		if _, err := r.Wait(); err != nil {
			return err
		}
		if world.Rank() == 1 {
			fmt.Println(x)
		}
		return r.Free()
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: [0 0 1 1 2 4]
}

// The sum is computed while the program does something else.
func ExampleIallreduce() {
	err := mpitest.Ranks(3, func(p *mpi.Process) error {
		x, sum := []int{p.World().Rank() + 1}, make([]int, 1)
		r, err := mpi.Iallreduce(p.World(), sum, x, mpi.Sum)
		if err != nil {
			return err
		}
		// Work that needs neither slice goes here.
		if _, err := r.Wait(); err != nil {
			return err
		}
		if p.World().Rank() == 0 {
			fmt.Println(sum[0])
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: 6
}

// A collective that is made once and started in each step.
func ExampleAllreduceInit() {
	err := mpitest.Ranks(2, func(p *mpi.Process) error {
		x, sum := make([]int, 1), make([]int, 1)
		r, err := mpi.AllreduceInit(p.World(), sum, x, mpi.Sum)
		if err != nil {
			return err
		}
		for step := range 3 {
			x[0] = step
			if err := r.Start(); err != nil {
				return err
			}
			if _, err := r.Wait(); err != nil {
				return err
			}
			if p.World().Rank() == 0 {
				fmt.Println("step", step, "sum", sum[0])
			}
		}
		return r.Free()
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// step 0 sum 0
	// step 1 sum 2
	// step 2 sum 4
}

// Every second element, as a datatype of the standard.
func ExampleTypeVector() {
	err := mpitest.Ranks(1, func(p *mpi.Process) error {
		integer, err := mpi.TypeOf[int32]()
		if err != nil {
			return err
		}
		second, err := mpi.TypeVector(3, 1, 2, integer)
		if err != nil {
			return err
		}
		if err := second.Commit(); err != nil {
			return err
		}
		size, err := second.Size()
		if err != nil {
			return err
		}
		x, y := []int32{1, 0, 2, 0, 3}, make([]int32, 3)
		_, err = p.World().Sendrecv(mpi.ViewAs(x, 0, second, 1), 0, 0, mpi.ViewOf(y), 0, 0)
		fmt.Println(size, "bytes:", y)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: 12 bytes: [1 2 3]
}

// Memory for messages that is registered with RDMA devices once, and not for each message.
func ExampleAlloc() {
	err := mpitest.Ranks(1, func(p *mpi.Process) error {
		x, err := mpi.Alloc[float64](p, 1000)
		fmt.Println(len(x))
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: 1000
}
