// Command gradients overlaps the exchange of gradients with their computation, as the training of a neural network on several
// ranks does: while the gradients of one layer are summed over the ranks, those of the layer before it are computed.
// gradients.py is the same program in Python.
//
//	ibrun -n 4 ./examples/gradients
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
	layers := flag.Int("layers", 8, "the number of layers")
	width := flag.Int("width", 100_000, "the number of gradients in a layer")
	flag.Parse()

	mpi.Main(func(_ context.Context, p *mpi.Process) error {
		return run(p, os.Stdout, *layers, *width)
	})
}

// run computes and sums the gradients of all layers. Rank 0 writes a checksum of each layer to out.
func run(p *mpi.Process, out io.Writer, layers, width int) error {
	sums, err := backward(p.World(), layers, width)
	if err != nil || p.World().Rank() > 0 {
		return err
	}
	for layer, gradients := range sums {
		checksum := 0.0
		for i, x := range gradients {
			checksum += x * float64(i%7)
		}
		if _, err := fmt.Fprintf(out, "layer %d: %.0f\n", layer, checksum); err != nil {
			return err
		}
	}
	return nil
}

// backward returns the gradients of all layers, summed over all ranks. One goroutine computes the gradients of the layers, from
// the last to the first; this one sums each layer as soon as it is ready. The order of the sums is the same at all ranks.
func backward(world *mpi.Comm, layers, width int) (sums [][]float64, err error) {
	sums = make([][]float64, layers)
	// communication begins
	ready := make(chan []float64, layers)
	go computeAll(sums, ready, world.Rank(), width)
	for range layers {
		if gradients := <-ready; err == nil {
			err = mpi.Allreduce(world, gradients, gradients, mpi.Sum)
		}
	}
	// communication ends
	return sums, err
}

// computeAll computes the gradients of all layers at a rank, and sends each layer to ready.
func computeAll(sums [][]float64, ready chan<- []float64, rank, width int) {
	for layer := len(sums) - 1; layer >= 0; layer-- {
		sums[layer] = compute(layer, rank, width)
		// communication begins
		ready <- sums[layer]
		// communication ends
	}
}

// compute returns the gradients of a layer at a rank. They are small whole numbers, so that sums are exact in any order.
func compute(layer, rank, width int) []float64 {
	gradients := make([]float64, width)
	for i := range gradients {
		gradients[i] = float64((i*31 + layer*17 + rank*5) % 101)
	}
	return gradients
}
