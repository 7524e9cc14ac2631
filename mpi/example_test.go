package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math"
	"os"
	"os/signal"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// A whole program: with ibrun -n 4 before its name it has four ranks; started by itself, as here, it is a world of one.
func Example() {
	p, err := mpi.Init(context.Background(), nil)
	if err != nil {
		log.Fatal(err)
	}
	world := p.World()

	x := []float64{float64(world.Rank() + 1)}
	sum := make([]float64, 1)
	if err := mpi.Allreduce(world, sum, x, mpi.Sum); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("rank %d of %d: the sum is %g\n", world.Rank(), world.Size(), sum[0])
	if err := p.Finalize(); err != nil {
		log.Fatal(err)
	}
	// Output: rank 0 of 1: the sum is 1
}

// All ranks run the same function; their numbers decide what they do. Package mpitest runs them in one program, as in a
// test; under ibrun each is a process.
func ExampleSend() {
	err := mpitest.Ranks(2, func(p *mpi.Process) error {
		world := p.World()
		if world.Rank() == 0 {
			return mpi.Send(world, []float64{3, 1, 4}, 1, 7) // to rank 1, with tag 7
		}
		x := make([]float64, 10) // the message may be shorter
		status, err := mpi.Recv(world, x, 0, 7)
		if err != nil {
			return err
		}
		n := mpi.Count[float64](status)
		fmt.Println("rank 1 has received", x[:n])
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: rank 1 has received [3 1 4]
}

// Messages are received in the order of their arrival; the status contains the sender.
func ExampleRecv() {
	err := mpitest.Ranks(4, func(p *mpi.Process) error {
		world := p.World()
		if world.Rank() > 0 {
			return mpi.Send(world, []int{world.Rank() * world.Rank()}, 0, 0)
		}
		x := make([]int, 1)
		for range world.Size() - 1 {
			status, err := mpi.Recv(world, x, mpi.AnySource, mpi.AnyTag)
			if err != nil {
				return err
			}
			fmt.Printf("rank %d has sent %d\n", status.Source, x[0])
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Unordered output:
	// rank 1 has sent 1
	// rank 2 has sent 4
	// rank 3 has sent 9
}

// Every rank sends to the next one and receives from the previous one. With Send and Recv, one after the other, all might
// wait for each other.
func ExampleSendrecv() {
	err := mpitest.Ranks(3, func(p *mpi.Process) error {
		world := p.World()
		rank, size := world.Rank(), world.Size()
		next, prev := (rank+1)%size, (rank+size-1)%size

		x := make([]int, 1)
		if _, err := mpi.Sendrecv(world, []int{rank}, next, 0, x, prev, 0); err != nil {
			return err
		}
		fmt.Printf("rank %d has got %d\n", rank, x[0])
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Unordered output:
	// rank 0 has got 2
	// rank 1 has got 0
	// rank 2 has got 1
}

// Messages travel while the program does something else.
func ExampleIsend() {
	err := mpitest.Ranks(2, func(p *mpi.Process) error {
		world := p.World()
		peer := 1 - world.Rank()
		mine, theirs := []int{10 * world.Rank()}, make([]int, 1)

		in, err := mpi.Irecv(world, theirs, peer, 0)
		if err != nil {
			return err
		}
		out, err := mpi.Isend(world, mine, peer, 0)
		if err != nil {
			return err
		}
		// Work that needs neither slice goes here.
		if err := mpi.Waitall([]mpi.Request{in, out}, nil); err != nil {
			return err
		}
		fmt.Printf("rank %d has %d\n", world.Rank(), theirs[0])
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Unordered output:
	// rank 0 has 10
	// rank 1 has 0
}

// A persistent request is made once and started for each message.
func ExampleRequest_Start() {
	err := mpitest.Ranks(2, func(p *mpi.Process) error {
		x := make([]int, 1)
		request, err := mpi.SendInit(p.World(), x, 1, 0)
		if p.World().Rank() == 1 {
			request, err = mpi.RecvInit(p.World(), x, 0, 0)
		}
		if err != nil {
			return err
		}
		for step := range 3 {
			if p.World().Rank() == 0 {
				x[0] = step * step
			}
			if err := request.Start(); err != nil {
				return err
			}
			if _, err := request.Wait(); err != nil { // from now on x may be used again
				return err
			}
			if p.World().Rank() == 1 {
				fmt.Println("step", step, "brings", x[0])
			}
		}
		return request.Free()
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// step 0 brings 0
	// step 1 brings 1
	// step 2 brings 4
}

func ExampleAllreduce() {
	err := mpitest.Ranks(4, func(p *mpi.Process) error {
		world := p.World()
		x := []int{world.Rank(), 10 * world.Rank()}
		if err := mpi.Allreduce(world, x, x, mpi.Sum); err != nil { // the same slice twice: in place
			return err
		}
		if world.Rank() == 2 { // all have the same
			fmt.Println(x)
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: [6 60]
}

// Rank 0 distributes equal parts, all ranks work on theirs, and rank 0 collects them.
func ExampleScatter() {
	err := mpitest.Ranks(3, func(p *mpi.Process) error {
		world := p.World()
		var all []int
		if world.Rank() == 0 {
			all = []int{1, 2, 3, 4, 5, 6}
		}
		part := make([]int, 2)
		if err := mpi.Scatter(world, part, all, 0); err != nil {
			return err
		}
		for i := range part {
			part[i] *= part[i]
		}
		if err := mpi.Gather(world, all, part, 0); err != nil {
			return err
		}
		if world.Rank() == 0 {
			fmt.Println(all)
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: [1 4 9 16 25 36]
}

// A user-defined operation: it selects the number that is farthest from 0.
func ExampleNewOp() {
	err := mpitest.Ranks(4, func(p *mpi.Process) error {
		farthest := mpi.NewOp(true, func(dst, src []float64) {
			for i, x := range src {
				if math.Abs(x) > math.Abs(dst[i]) {
					dst[i] = x
				}
			}
		})
		x := []float64{[]float64{1, -8, 5, 0}[p.World().Rank()]}
		if err := mpi.Reduce(p.World(), x, x, farthest, 0); err != nil {
			return err
		}
		if p.World().Rank() == 0 {
			fmt.Println(x[0])
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: -8
}

// Ranks with the same color get a communicator of their own, in which they are numbered from 0.
func ExampleComm_Split() {
	err := mpitest.Ranks(4, func(p *mpi.Process) error {
		world := p.World()
		half, err := world.Split(world.Rank()/2, 0)
		if err != nil {
			return err
		}
		sum := []int{world.Rank()}
		if err := mpi.Allreduce(half, sum, sum, mpi.Sum); err != nil {
			return err
		}
		fmt.Printf("rank %d is rank %d of %d in its half, whose sum is %d\n", world.Rank(), half.Rank(), half.Size(), sum[0])
		return half.Free()
	})
	if err != nil {
		log.Fatal(err)
	}
	// Unordered output:
	// rank 0 is rank 0 of 2 in its half, whose sum is 1
	// rank 1 is rank 1 of 2 in its half, whose sum is 1
	// rank 2 is rank 0 of 2 in its half, whose sum is 5
	// rank 3 is rank 1 of 2 in its half, whose sum is 5
}

// Errors are distinguished by their class, and contain the call and the rank.
func ExampleError() {
	err := mpitest.Ranks(2, func(p *mpi.Process) error {
		world := p.World()
		if world.Rank() == 0 {
			return mpi.Send(world, []byte("too long"), 1, 0)
		}
		x := make([]byte, 3)
		_, err := mpi.Recv(world, x, 0, 0)
		if !errors.Is(err, mpi.ErrTruncate) {
			return err
		}
		fmt.Printf("%q is the first part\n", x)
		var e *mpi.Error
		if errors.As(err, &e) {
			fmt.Printf("%s at rank %d: %v\n", e.Op, e.Rank, e.Class)
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// "too" is the first part
	// Recv at rank 1: message truncated
}

// A library creates its own communicator, without World, so its messages and the program's are separate.
func ExampleCommFromGroup() {
	err := mpitest.Ranks(3, func(p *mpi.Process) error {
		session, err := p.OpenSession(nil)
		if err != nil {
			return err
		}
		group, err := session.Group("mpi://WORLD")
		if err != nil {
			return err
		}
		comm, err := mpi.CommFromGroup(group, "org.example.library", nil)
		if err != nil {
			return err
		}
		x := []int{0}
		if comm.Rank() == 0 {
			x[0] = 42
		}
		if err := mpi.Bcast(comm, x, 0); err != nil {
			return err
		}
		fmt.Printf("rank %d of %d: %d\n", comm.Rank(), comm.Size(), x[0])
		return session.Close() // frees the communicator as well
	})
	if err != nil {
		log.Fatal(err)
	}
	// Unordered output:
	// rank 0 of 3: 42
	// rank 1 of 3: 42
	// rank 2 of 3: 42
}

// A value of any type is attached to a communicator. Callbacks copy it to duplicates, and run when it is deleted.
func ExampleNewKeyval() {
	err := mpitest.Ranks(1, func(p *mpi.Process) error {
		name := mpi.NewKeyval(p, mpi.DupCopy[string], func(_ *mpi.Comm, value string) error {
			fmt.Println(value, "goes")
			return nil
		})
		if err := name.Set(p.World(), "grid"); err != nil {
			return err
		}
		dup, err := p.World().Dup()
		if err != nil {
			return err
		}
		value, ok, err := name.Get(dup)
		fmt.Println(value, ok, err)
		return dup.Free()
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// grid true <nil>
	// grid goes
	// grid goes
}

// A program waits for a message and for a signal at the same time. It need not call the library meanwhile.
func ExampleRequest_Done() {
	err := mpitest.Ranks(2, func(p *mpi.Process) error {
		world := p.World()
		if world.Rank() == 0 {
			return mpi.Send(world, []int{42}, 1, 0)
		}
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		x := make([]int, 1)
		r, err := mpi.Irecv(world, x, 0, 0)
		if err != nil {
			return err
		}
		select {
		case <-r.Done():
		case <-ctx.Done():
			if err := r.Cancel(); err != nil {
				return err
			}
		}
		status, err := r.Wait() // ends the request, and the use of x
		fmt.Println(x[0], status.Cancelled(), err)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: 42 false <nil>
}

// A goroutine of the program does the work of a request, which is then waited for beside a message.
func ExampleProcess_NewGrequest() {
	err := mpitest.Ranks(1, func(p *mpi.Process) error {
		sum := 0
		work, err := p.NewGrequest(mpi.GrequestFuncs{
			Query: func(st *mpi.Status) error { return mpi.SetCount[int](st, 1) },
			Free:  func() error { fmt.Println("free"); return nil },
		})
		if err != nil {
			return err
		}
		go func() {
			for i := range 10 {
				sum += i
			}
			work.Complete() // fails only for a request that is complete
		}()
		x := make([]int, 1)
		message, err := mpi.Irecv(p.World(), x, 0, 0)
		if err != nil {
			return err
		}
		if err := mpi.Send(p.World(), []int{7}, 0, 0); err != nil {
			return err
		}
		status := make([]mpi.Status, 2)
		if err := mpi.Waitall([]mpi.Request{work.Request, message}, status); err != nil {
			return err
		}
		fmt.Println(sum, mpi.Count[int](status[0]), x[0])
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// free
	// 45 1 7
}
