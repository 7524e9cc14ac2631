package mpi_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
	"github.com/ibrun/ibrun/soft-roce/live"
)

// TestLiveRDMA sends messages of every kind through the device of this machine: ranks 2k and 2k+1 share memory, all others are
// reached by RDMA, or all are.
func TestLiveRDMA(t *testing.T) {
	live.NoNAK(t)
	for _, transports := range []string{"rdma", "shm,rdma"} {
		t.Run(transports, func(t *testing.T) {
			t.Setenv("IBRUN_TRANSPORT", transports)
			mpitest.Run(t, 3, func(p *mpi.Process) error {
				for _, n := range []int{0, 1, 500, 5000, 50000, 300000} {
					if err := aroundTheRing(p.World(), n); err != nil {
						return fmt.Errorf("%d elements: %w", n, err)
					}
				}
				return sums(p.World())
			})
		})
	}
}

// aroundTheRing sends n elements to the next rank, and checks those of the rank before, received by number and by wildcard.
func aroundTheRing(w *mpi.Comm, n int) error {
	me, size := w.Rank(), w.Size()
	x, y := make([]int32, n), make([]int32, n+1)
	for i := range x {
		x[i] = int32(i*size + me)
	}
	before := (me + size - 1) % size
	for _, from := range []int{before, mpi.AnySource} {
		r, err := mpi.Irecv(w, y, from, 7)
		if err != nil {
			return err
		}
		if err := mpi.Ssend(w, x, (me+1)%size, 7); err != nil {
			return err
		}
		st, err := r.Wait()
		if err != nil {
			return err
		}
		if mpi.Count[int32](st) != n || st.Source != before {
			return fmt.Errorf("status %+v", st)
		}
		for i, v := range y[:n] {
			if v != int32(i*size+before) {
				return fmt.Errorf("element %d is %d", i, v)
			}
		}
	}
	return nil
}

// sums reduces vectors of some lengths.
func sums(w *mpi.Comm) error {
	for _, n := range []int{1, 1000, 100000} {
		x := make([]float64, n)
		for i := range x {
			x[i] = float64(w.Rank() + i)
		}
		if err := mpi.Allreduce(w, x, x, mpi.Sum); err != nil {
			return err
		}
		ranks := w.Size()
		for i, v := range x {
			if v != float64(ranks*(ranks-1)/2+ranks*i) {
				return errors.New("wrong sum")
			}
		}
	}
	return w.Barrier()
}
