// Command taskfarm counts prime numbers. Rank 0 hands out ranges of numbers; every other rank asks for the next range as soon as
// it has finished one, so that fast ranks do more. taskfarm.py is the same program in Python.
//
//	ibrun -n 4 ./examples/taskfarm
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/ibrun/ibrun/mpi"
)

const (
	tagWork   = 1
	noMore    = -1   // instead of a task: there are no more
	rangeSize = 1000 // numbers of a task
)

func main() {
	tasks := flag.Int64("tasks", 1000, "the number of tasks, each of 1000 numbers")
	flag.Parse()

	mpi.Main(func(_ context.Context, p *mpi.Process) error {
		return run(p, os.Stdout, *tasks)
	})
}

// run counts the prime numbers in all tasks. Rank 0 writes their number to out.
func run(p *mpi.Process, out io.Writer, tasks int64) error {
	world := p.World()
	if world.Size() < 2 {
		return fmt.Errorf("want at least 2 ranks, the first of which hands out tasks")
	}
	if world.Rank() > 0 {
		return work(world)
	}
	found, err := handOut(world, tasks)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%d primes below %d\n", found, tasks*rangeSize)
	return err
}

// handOut answers each result with the next task, and returns the sum of the results. The first result of a rank is 0.
func handOut(world *mpi.Comm, tasks int64) (found int64, err error) {
	// communication begins
	for next, working := int64(0), world.Size()-1; working > 0; next++ {
		n, from, err := mpi.RecvOne[int64](world, mpi.AnySource, tagWork)
		if err != nil {
			return 0, err
		}
		found += n
		task := next
		if next >= tasks {
			task = noMore
			working--
		}
		if err := mpi.SendOne(world, task, from.Source, tagWork); err != nil {
			return 0, err
		}
	}
	return found, nil
	// communication ends
}

// work does tasks until there are no more.
func work(world *mpi.Comm) error {
	// communication begins
	for found := int64(0); ; {
		task, _, err := mpi.SendrecvOne(world, found, 0, tagWork, 0, tagWork)
		if err != nil || task == noMore {
			return err
		}
		found = countPrimes(task)
	}
	// communication ends
}

// countPrimes returns the number of prime numbers in a task.
func countPrimes(task int64) (n int64) {
	for i := task * rangeSize; i < (task+1)*rangeSize; i++ {
		if isPrime(i) {
			n++
		}
	}
	return n
}

func isPrime(n int64) bool {
	if n < 2 {
		return false
	}
	for d := int64(2); d*d <= n; d++ {
		if n%d == 0 {
			return false
		}
	}
	return true
}
