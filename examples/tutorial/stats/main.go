// Command stats computes the mean and the standard deviation of numbers that rank 0 has. Each rank adds up a part of them.
package main

import (
	"context"
	"fmt"
	"math"

	"github.com/ibrun/ibrun/mpi"
)

const count = 100_000 // numbers of each rank's part

func main() {
	mpi.Main(func(_ context.Context, p *mpi.Process) error {
		world := p.World()
		var all []float64 // the other ranks have none
		if world.Rank() == 0 {
			all = measure(count * world.Size())
		}
		mean, deviation, err := stats(world, all, count)
		if err != nil {
			return err
		}
		if world.Rank() == 0 {
			fmt.Printf("mean %.3f, deviation %.3f\n", mean, deviation)
		}
		return nil
	})
}

// stats returns the mean of the numbers of rank 0, of which each rank gets n, and at rank 0 their standard deviation.
func stats(world *mpi.Comm, all []float64, n int) (mean, deviation float64, err error) {
	part := make([]float64, n)
	if err := mpi.Scatter(world, part, all, 0); err != nil {
		return 0, 0, err
	}
	total := float64(n * world.Size())

	sum := 0.0
	for _, x := range part {
		sum += x
	}
	mean, err = mpi.AllreduceOne(world, sum/total, mpi.Sum)
	if err != nil {
		return 0, 0, err
	}

	squares := 0.0
	for _, x := range part {
		squares += (x - mean) * (x - mean)
	}
	variance, err := mpi.ReduceOne(world, squares/total, mpi.Sum, 0)
	return mean, math.Sqrt(variance), err
}

// measure returns n numbers, from 0 to 99.
func measure(n int) []float64 {
	all := make([]float64, n)
	for i := range all {
		all[i] = float64(i % 100)
	}
	return all
}
