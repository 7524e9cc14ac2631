package mpi_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// BenchmarkWaitany measures a message to this process itself, its completion by Waitany or Waitsome, and the receive that
// replaces it, with so many receives in progress. The time must not depend on their number.
func BenchmarkWaitany(b *testing.B) {
	b.Setenv("IBRUN_CHECK", "0")
	for _, some := range []bool{false, true} {
		for _, n := range []int{10, 100, 1000, 10000} {
			b.Run(fmt.Sprintf("some=%v/%d", some, n), func(b *testing.B) {
				mpitest.Run(b, 1, func(p *mpi.Process) error { return completions(b, p.World(), n, some) })
			})
		}
	}
}

func completions(b *testing.B, w *mpi.Comm, n int, some bool) error {
	x, reqs, idx := make([]int64, n), make([]mpi.Request, n), make([]int, n)
	post := func(i int) (err error) {
		reqs[i], err = mpi.Irecv(w, x[i:i+1], 0, i)
		return err
	}
	for i := range reqs {
		if err := post(i); err != nil {
			return err
		}
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	for b.Loop() {
		i := rnd.IntN(n)
		if err := mpi.SendOne(w, int64(i), 0, i); err != nil {
			return err
		}
		k, err := 1, error(nil)
		if some {
			k, err = mpi.Waitsome(reqs, idx, nil)
		} else {
			idx[0], _, err = mpi.Waitany(reqs)
		}
		if err != nil || k != 1 || idx[0] != i || x[i] != int64(i) {
			return fmt.Errorf("%d completed, the first is %d, want %d: %w", k, idx[0], i, err)
		}
		if err := post(i); err != nil {
			return err
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N), "ns/completion")
	errs := make([]error, 0, n)
	for _, r := range reqs {
		errs = append(errs, r.Cancel())
	}
	return errors.Join(append(errs, mpi.Waitall(reqs, nil))...)
}
