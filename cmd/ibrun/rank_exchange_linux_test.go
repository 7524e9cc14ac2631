package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/ibrun/ibrun/mpi"
)

// exchange is an MPI program. In each round all ranks add numbers, send each other messages of all protocols in a ring, and
// receive a long message from one of them, and they check every byte. There is one round. With an argument, rounds begin until
// a file of that name exists, and every rank prints a line after the first. Rank 0 prints how many rounds there were.
func exchange(args []string) error {
	p, err := mpi.Init(context.Background(), nil)
	if err != nil {
		return err
	}
	w := p.World()
	last := len(args) == 0
	for n := 0; ; n++ {
		if err := exchangeRound(w, n); err != nil {
			return fmt.Errorf("rank %d, round %d: %w", w.Rank(), n, err)
		}
		if n == 0 && !last {
			fmt.Println("ready", os.Getpid())
		}
		if last {
			if w.Rank() == 0 {
				fmt.Println("rounds", n+1)
			}
			return p.Finalize()
		}
		found := []byte{0}
		if _, err := os.Stat(args[0]); err == nil {
			found[0] = 1
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := mpi.Bcast(w, found, 0); err != nil {
			return err
		}
		last = found[0] == 1
	}
}

// exchangeRound is one round of exchange.
func exchangeRound(w *mpi.Comm, n int) error {
	in, out := make([]int64, 1000), make([]int64, 1000)
	want := int64(0)
	for r := range w.Size() {
		want += int64(r * n)
	}
	for i := range out {
		out[i] = int64(w.Rank()*n + i)
	}
	if err := mpi.Allreduce(w, in, out, mpi.Sum); err != nil {
		return err
	}
	for i, got := range in {
		if got != want+int64(i*w.Size()) {
			return fmt.Errorf("the sum of element %d is %d instead of %d", i, got, want+int64(i*w.Size()))
		}
	}
	next, previous := (w.Rank()+1)%w.Size(), (w.Rank()+w.Size()-1)%w.Size()
	for _, length := range []int{0, 1, 90, 7000, 60000, 1<<20 + 13} {
		in := make([]byte, length)
		if _, err := mpi.Sendrecv(w, pattern(w.Rank(), n, length), next, 1, in, previous, 1); err != nil {
			return err
		}
		if !bytes.Equal(in, pattern(previous, n, length)) {
			return fmt.Errorf("wrong bytes in a message of %d", length)
		}
	}
	root, long := n%w.Size(), make([]byte, 300000)
	if w.Rank() == root {
		long = pattern(root, n, len(long))
	}
	if err := mpi.Bcast(w, long, root); err != nil {
		return err
	}
	if !bytes.Equal(long, pattern(root, n, len(long))) {
		return fmt.Errorf("wrong bytes from rank %d", root)
	}
	return nil
}

// pattern returns the bytes that a rank sends in a round.
func pattern(rank, round, length int) []byte {
	b := make([]byte, length)
	for i := range b {
		b[i] = byte(i*7 + i>>8 + rank*31 + round*101)
	}
	return b
}
