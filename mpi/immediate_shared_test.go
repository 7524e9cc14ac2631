package mpi_test

import (
	"errors"
	"testing"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// TestSharedMismatch: over shared memory, calls that differ are an error of every rank that waits, without checks of calls. A
// rank that waits for nobody gets it with a later call.
func TestSharedMismatch(t *testing.T) {
	t.Setenv("IBRUN_TRANSPORT", "") // the memory transport shares memory between all ranks
	for name, call := range map[string]func(w *mpi.Comm, x []int) (mpi.Request, error){
		"call": func(w *mpi.Comm, x []int) (mpi.Request, error) {
			if w.Rank() == 0 {
				return w.Ibarrier()
			}
			return mpi.Iallreduce(w, x, x, mpi.Sum)
		},
		"operation": func(w *mpi.Comm, x []int) (mpi.Request, error) {
			if w.Rank() > 0 {
				return mpi.Iallreduce(w, x, x, mpi.NewOp(true, func(dst, src []int) {}))
			}
			return mpi.Iallreduce(w, x, x, mpi.Sum)
		},
		"root":  func(w *mpi.Comm, x []int) (mpi.Request, error) { return mpi.Ibcast(w, x, w.Rank()%2) },
		"count": func(w *mpi.Comm, x []int) (mpi.Request, error) { return mpi.Iallgather(w, x, x[:3-w.Rank()/2]) },
	} {
		t.Run(name, func(t *testing.T) {
			mpitest.RunWith(t, 3, mpitest.Options{Unchecked: true}, func(p *mpi.Process) error {
				w, x := p.World(), make([]int, 9)
				if err := w.Barrier(); err != nil {
					return err
				}
				if name == "count" {
					x = x[:9-w.Rank()/2*3]
				}
				var err error
				for _, f := range []func(*mpi.Comm, []int) (mpi.Request, error){call, call,
					func(*mpi.Comm, []int) (mpi.Request, error) { return w.Ibarrier() }} {
					var r mpi.Request
					if r, err = f(w, x); err == nil {
						_, err = r.Wait()
					}
					if err != nil {
						break
					}
				}
				var failed *mpi.Error
				return check(errors.As(err, &failed), "got %v", err)
			})
		})
	}
}
