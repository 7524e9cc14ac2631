package mpi_test

import (
	"testing"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// BenchmarkAllreduceMany measures 64 sums of 1 KiB between 4 ranks: one after another, all in progress at once, and in one call.
func BenchmarkAllreduceMany(b *testing.B) {
	const slices, length, ranks = 64, 128, 4
	b.Setenv("IBRUN_CHECK", "0")
	each := func(start func(w *mpi.Comm, dst, src []int) error) func(w *mpi.Comm, dsts, srcs [][]int) error {
		return func(w *mpi.Comm, dsts, srcs [][]int) error {
			for i := range srcs {
				if err := start(w, dsts[i], srcs[i]); err != nil {
					return err
				}
			}
			return nil
		}
	}
	for _, c := range []struct {
		name string
		sum  func(w *mpi.Comm, dsts, srcs [][]int) error
	}{
		{"blocking/separate", each(func(w *mpi.Comm, dst, src []int) error { return mpi.Allreduce(w, dst, src, mpi.Sum) })},
		{"blocking/many", func(w *mpi.Comm, dsts, srcs [][]int) error { return mpi.AllreduceMany(w, dsts, srcs, mpi.Sum) }},
		{"immediate/separate", func(w *mpi.Comm, dsts, srcs [][]int) error {
			var reqs []mpi.Request
			err := each(func(w *mpi.Comm, dst, src []int) error {
				r, err := mpi.Iallreduce(w, dst, src, mpi.Sum)
				reqs = append(reqs, r)
				return err
			})(w, dsts, srcs)
			if err != nil {
				return err
			}
			return mpi.Waitall(reqs, nil)
		}},
		{"immediate/many", func(w *mpi.Comm, dsts, srcs [][]int) error {
			r, err := mpi.IallreduceMany(w, dsts, srcs, mpi.Sum)
			if err != nil {
				return err
			}
			_, err = r.Wait()
			return err
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			mpitest.Run(b, ranks, func(p *mpi.Process) error {
				w := p.World()
				dsts, srcs := make([][]int, slices), make([][]int, slices)
				for i := range srcs {
					dsts[i], srcs[i] = make([]int, length), make([]int, length)
				}
				if err := w.Barrier(); err != nil {
					return err
				}
				if w.Rank() == 0 {
					b.ResetTimer()
				}
				for range b.N {
					if err := c.sum(w, dsts, srcs); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}
