// Command ring passes a token around a ring of ranks many times. Each rank adds its number to the token before passing it on.
//
//	ibrun -n 4 ./examples/ring
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/ibrun/ibrun/mpi"
)

// tagToken distinguishes the token from other messages. This program has no others; most programs do.
const tagToken = 1

func main() {
	laps := flag.Int("laps", 10_000, "how often the token goes around the ring")
	flag.Parse()

	mpi.Main(func(_ context.Context, p *mpi.Process) error {
		return run(p, os.Stdout, *laps)
	})
}

// run sends the token around. Rank 0 starts every lap and, after the last one, writes the value of the token to out.
func run(p *mpi.Process, out io.Writer, laps int) error {
	world := p.World()
	rank, size := world.Rank(), world.Size()
	next, prev := (rank+1)%size, (rank+size-1)%size

	token, back := make([]int64, 1), make([]int64, 1)
	start := p.Wtime()
	for range laps {
		if err := lap(world, token, back, next, prev); err != nil {
			return fmt.Errorf("passing the token on: %w", err)
		}
	}
	if rank > 0 {
		return nil
	}
	hop := (p.Wtime() - start) / float64(laps*size)
	_, err := fmt.Fprintf(out, "%d laps over %d ranks: the token is %d; %.2f µs per hop\n", laps, size, token[0], hop*1e6)
	return err
}

// lap takes the token once around the ring. Every other rank receives the token before it sends it; if rank 0 did so too, no
// rank would ever send. So rank 0 sends and receives in one call, which also works if it is the only rank and sends to
// itself.
func lap(world *mpi.Comm, token, back []int64, next, prev int) error {
	if world.Rank() == 0 {
		_, err := mpi.Sendrecv(world, token, next, tagToken, back, prev, tagToken)
		copy(token, back)
		return err
	}
	if _, err := mpi.Recv(world, token, prev, tagToken); err != nil {
		return err
	}
	token[0] += int64(world.Rank())
	return mpi.Send(world, token, next, tagToken)
}
