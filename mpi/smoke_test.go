package mpi_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

func TestSmoke(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4, 7} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			mpitest.Run(t, n, func(p *mpi.Process) error {
				w := p.World()
				x := []int{w.Rank() + 1}
				sum := make([]int, 1)
				for range 50 {
					if err := mpi.Allreduce(w, sum, x, mpi.Sum); err != nil {
						return err
					}
					if sum[0] != n*(n+1)/2 {
						return fmt.Errorf("sum %d", sum[0])
					}
				}
				next, prev := (w.Rank()+1)%n, (w.Rank()+n-1)%n
				for _, size := range []int{0, 1, 100, 3000, 20000, 300000} {
					out, in := make([]int32, size), make([]int32, size)
					for i := range out {
						out[i] = int32(i * (w.Rank() + 1))
					}
					st, err := mpi.Sendrecv(w, out, next, 3, in, prev, 3)
					if err != nil {
						return err
					}
					if mpi.Count[int32](st) != size || st.Source != prev {
						return fmt.Errorf("status %+v", st)
					}
					for i := range in {
						if in[i] != int32(i*(prev+1)) {
							return fmt.Errorf("size %d: in[%d] = %d", size, i, in[i])
						}
					}
				}
				d, err := w.Dup()
				if err != nil {
					return err
				}
				s, err := d.Split(w.Rank()%2, -w.Rank())
				if err != nil {
					return err
				}
				if err := s.Barrier(); err != nil {
					return err
				}
				if err := s.Free(); err != nil {
					return err
				}
				return errors.Join(d.Free(), w.Barrier())
			})
		})
	}
}
