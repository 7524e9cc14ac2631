package mpi_test

import (
	"errors"
	"fmt"
	"slices"
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

// TestTableOfImmediates: a table says which immediate collectives of the ranks of a node use messages. Those in progress may be
// of both kinds.
func TestTableOfImmediates(t *testing.T) {
	t.Setenv("IBRUN_TRANSPORT", "") // the memory transport shares memory between all ranks
	for _, c := range []struct {
		rules string
		sends bool
	}{
		{"", false},
		{`{"collective": "ibcast", "algorithm": "messages", "max_bytes": 100}`, true},
		{`{"collective": "ibcast", "algorithm": "messages", "max_bytes": 7}`, false},
		{`{"collective": "bcast", "algorithm": "binomial"}`, false},
	} {
		t.Run(c.rules, func(t *testing.T) {
			useTable(t, c.rules)
			mpitest.RunWith(t, 4, mpitest.Options{Unchecked: true}, func(p *mpi.Process) error {
				w := p.World()
				if err := w.Barrier(); err != nil {
					return err
				}
				before, err := p.Recorded()
				if err != nil {
					return err
				}
				const calls = 20
				var reqs []mpi.Request
				short, long := make([][]int, calls), make([][]int, calls)
				for i := range calls {
					short[i], long[i] = []int{i * w.Rank()}, slices.Repeat([]int{i * w.Rank()}, 1000)
					for _, x := range [][]int{short[i], long[i]} {
						r, err := mpi.Ibcast(w, x, i%4)
						if err != nil {
							return err
						}
						reqs = append(reqs, r)
					}
				}
				if err := mpi.Waitall(reqs, nil); err != nil {
					return err
				}
				for i := range calls {
					if want := i * (i % 4); short[i][0] != want || long[i][999] != want {
						return fmt.Errorf("call %d: got %d and %d, want %d", i, short[i][0], long[i][999], want)
					}
				}
				after, err := p.Recorded()
				sent := after.Sent - before.Sent
				return errors.Join(err, check((sent > 0) == c.sends, "%d messages were sent", sent))
			})
		})
	}
}
