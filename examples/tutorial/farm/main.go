// Command farm counts prime numbers. Rank 0 hands out tasks. Each other rank asks for the next task when it has finished one, so
// fast ranks do more of them.
package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/ibrun/ibrun/mpi"
)

const (
	tasks = 500
	size  = 1000 // numbers in each task
	tag   = 0
	done  = -1 // in place of a task: there are no more
)

func main() {
	mpi.Main(func(_ context.Context, p *mpi.Process) error {
		world := p.World()
		if world.Size() < 2 {
			return errors.New("want at least 2 ranks, such as ibrun -n 2")
		}
		if world.Rank() > 0 {
			return work(world)
		}
		primes, err := handOut(world)
		if err == nil {
			fmt.Printf("%d primes below %d\n", primes, tasks*size)
		}
		return err
	})
}

// handOut answers each result with a task, and returns the sum of the results. The first result of a rank is 0.
func handOut(world *mpi.Comm) (primes int, err error) {
	working := world.Size() - 1
	for next := 0; working > 0; next++ {
		result, status, err := mpi.RecvOne[int](world, mpi.AnySource, tag)
		if err != nil {
			return 0, err
		}
		primes += result
		task := next
		if next >= tasks {
			task = done
			working--
		}
		if err := mpi.SendOne(world, task, status.Source, tag); err != nil {
			return 0, err
		}
	}
	return primes, nil
}

// work sends the result of each task to rank 0, and receives the next task from it.
func work(world *mpi.Comm) error {
	result := 0
	for {
		task, _, err := mpi.SendrecvOne(world, result, 0, tag, 0, tag)
		if err != nil || task == done {
			return err
		}
		result = countPrimes(task*size, (task+1)*size)
	}
}

// countPrimes returns the number of prime numbers from first to last-1.
func countPrimes(first, last int) (primes int) {
	for n := max(first, 2); n < last; n++ {
		prime := true
		for d := 2; d*d <= n && prime; d++ {
			prime = n%d != 0
		}
		if prime {
			primes++
		}
	}
	return primes
}
