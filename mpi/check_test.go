package mpi_test

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// runChecked runs a world whose calls are checked, whatever the environment says.
func runChecked(t *testing.T, n int, f func(p *mpi.Process) error) {
	t.Helper()
	t.Setenv("IBRUN_CHECK", "1")
	mpitest.Run(t, n, f)
}

// different returns the first of two values at rank 1, and the second at the others.
func different[T any](c *mpi.Comm, one, others T) T {
	if c.Rank() == 1 {
		return one
	}
	return others
}

// checkedCollectives are collectives that ranks call differently: the class of the error, and what it says beside both ranks.
var checkedCollectives = map[string]struct {
	call  func(c *mpi.Comm) error
	class mpi.Class
	says  []string
}{
	"length": {func(c *mpi.Comm) error {
		x := make([]float64, different(c, 11, 10))
		return mpi.Allreduce(c, x, x, mpi.Sum)
	}, mpi.ErrCount, []string{"Allreduce of 11 elements of float64 (sum)", "Allreduce of 10 elements of float64 (sum)"}},
	"operation": {func(c *mpi.Comm) error {
		x := make([]float64, 10)
		return mpi.Allreduce(c, x, x, different(c, mpi.Max, mpi.Sum))
	}, mpi.ErrOp, []string{"(max)", "(sum)"}},
	"operation of the program": {func(c *mpi.Comm) error {
		own := mpi.NewOp(true, func(dst, src []int) {})
		return mpi.Reduce(c, make([]int, 1), make([]int, 1), different[mpi.Op](c, own, mpi.Sum), 0)
	}, mpi.ErrOp, []string{"a commutative operation of the program", "(sum)"}},
	"type": {func(c *mpi.Comm) error {
		if c.Rank() == 1 {
			return mpi.Bcast(c, make([]int32, 4), 0)
		}
		return mpi.Bcast(c, make([]float32, 4), 0)
	}, mpi.ErrType, []string{"of int32", "of float32"}},
	"root": {func(c *mpi.Comm) error {
		return mpi.Bcast(c, make([]int, 4), different(c, 1, 0))
	}, mpi.ErrRoot, []string{"with root 1", "with root 0"}},
	"order": {func(c *mpi.Comm) error {
		if c.Rank() == 1 {
			return c.Barrier()
		}
		return mpi.Bcast(c, make([]int, 4), 0)
	}, mpi.ErrOther, []string{"Barrier at", "Bcast of 4 elements of int64 with root 0 at"}},
	"creation": {func(c *mpi.Comm) error {
		if c.Rank() == 1 {
			_, err := c.Split(0, 0)
			return err
		}
		_, err := c.Dup()
		return err
	}, mpi.ErrOther, []string{"Split at", "Dup at"}},
	"creation of an intercommunicator": {func(c *mpi.Comm) error {
		var err error
		if c.Rank() == 1 {
			_, err = c.CreateIntercomm(0, c, 2, 0)
		} else {
			_, err = c.Create(c.Group())
		}
		return err
	}, mpi.ErrOther, []string{"CreateIntercomm at", "Create at"}},
	"Idup in another order": {func(c *mpi.Comm) error {
		var failed error
		if c.Rank() != 1 {
			failed = c.Barrier()
		}
		d, r, err := c.Idup()
		if c.Rank() == 1 {
			failed = c.Barrier()
		}
		if err == nil {
			_, err = r.Wait()
		}
		if err = errors.Join(err, d.Free()); err != nil {
			return err
		}
		return failed
	}, mpi.ErrOther, []string{
		"Barrier after 1 Idup at", "Barrier after 0 Idup at"}},
	"arguments of one rank": {func(c *mpi.Comm) error {
		return mpi.Bcast(c, make([]int, 4), different(c, 7, 0))
	}, mpi.ErrRoot, []string{"rank 7 is out of range"}},
	"nil operation of one rank": {func(c *mpi.Comm) error {
		return mpi.Scan(c, make([]int, 4), make([]int, 4), different[mpi.Op](c, nil, mpi.Sum))
	}, mpi.ErrOp, []string{"the operation is nil"}},
	"Gatherv": {func(c *mpi.Comm) error {
		return mpi.Gatherv(c, make([]int, 9), []int{1, 2, 3}, nil, make([]int, different(c, 5, c.Rank()+1)), 0)
	}, mpi.ErrCount, []string{"Gatherv of 5 elements", "a count of 2"}},
	"Scatterv": {func(c *mpi.Comm) error {
		return mpi.Scatterv(c, make([]int, different(c, 1, c.Rank()+1)), make([]int, 9), []int{1, 2, 3}, nil, 0)
	}, mpi.ErrCount, []string{"Scatterv of 1 elements", "a count of 2"}},
	"Alltoallv": {func(c *mpi.Comm) error {
		counts := []int{1, 1, 1}
		return mpi.Alltoallv(c, make([]int, 9), counts, nil, make([]int, 9), different(c, []int{2, 1, 1}, counts), nil)
	}, mpi.ErrCount, []string{"counts [2 1 1]", "2 elements", "a count of 1"}},
	"Allgatherv": {func(c *mpi.Comm) error {
		counts := different(c, []int{2, 2, 1}, []int{2, 2, 2})
		return mpi.Allgatherv(c, make([]int, 9), counts, nil, make([]int, 2))
	}, mpi.ErrCount, []string{"counts [2 2 1]", "counts [2 2 2]"}},
	"ReduceScatter": {func(c *mpi.Comm) error {
		counts := different(c, []int{2, 1, 3}, []int{2, 2, 2})
		return mpi.ReduceScatter(c, make([]int, 9), make([]int, 6), counts, mpi.Sum)
	}, mpi.ErrCount, []string{"counts [2 1 3]", "counts [2 2 2]"}},
	"Gather": {func(c *mpi.Comm) error {
		return mpi.Gather(c, make([]int, 6), make([]int, different(c, 3, 2)), 0)
	}, mpi.ErrCount, []string{"Gather of 3 elements", "Gather of 2 elements"}},
	"Alltoall": {func(c *mpi.Comm) error {
		x := make([]int, different(c, 6, 3))
		return mpi.Alltoall(c, make([]int, len(x)), x)
	}, mpi.ErrCount, []string{"Alltoall of 2 elements", "Alltoall of 1 elements"}},
}

// TestCheckedCollectives: calls that differ are an error of all ranks, which names rank 1, its line, and another rank.
// The communicator can be used afterwards.
func TestCheckedCollectives(t *testing.T) {
	for name, test := range checkedCollectives {
		t.Run(name, func(t *testing.T) {
			runChecked(t, 3, func(p *mpi.Process) error {
				err := test.call(p.World())
				if !errors.Is(err, test.class) {
					t.Errorf("rank %d: %v, want %v", p.World().Rank(), err, test.class)
					return err
				}
				for _, part := range append(test.says, "rank 1", "mpi/check_test.go:") {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("rank %d: %v, want %q in it", p.World().Rank(), err, part)
					}
				}
				return p.World().Barrier()
			})
		})
	}
}

// TestCheckedSubcommunicator: the ranks of a message are those in the communicator, with their numbers in the job.
func TestCheckedSubcommunicator(t *testing.T) {
	runChecked(t, 3, func(p *mpi.Process) error {
		c, err := p.World().Split(min(p.World().Rank(), 1), 0)
		if err != nil || c.Size() == 1 {
			return err
		}
		err = mpi.Bcast(c, make([]int, 1+c.Rank()), 0)
		if !errors.Is(err, mpi.ErrCount) || !strings.Contains(err.Error(), "(rank 1, process 2) against") {
			t.Errorf("rank %d: %v", c.Rank(), err)
		}
		return c.Free()
	})
}

// TestCheckedMessages: elements of another type than the receive has, and a message that is too long, are errors that name the
// line of the send, for every protocol and every way to receive.
func TestCheckedMessages(t *testing.T) {
	receives := map[string]func(c *mpi.Comm, x []int32) error{
		"Recv": func(c *mpi.Comm, x []int32) error {
			_, err := mpi.Recv(c, x, 0, mpi.AnyTag)
			return err
		},
		"Irecv": func(c *mpi.Comm, x []int32) error {
			r, err := mpi.Irecv(c, x, mpi.AnySource, 5)
			if err == nil {
				_, err = r.Wait()
			}
			return err
		},
		"RecvInit": func(c *mpi.Comm, x []int32) error {
			r, err := mpi.RecvInit(c, x, 0, 5)
			if err = errors.Join(err, r.Start()); err == nil {
				err = mpi.Waitall([]mpi.Request{r}, nil)
			}
			return errors.Join(err, r.Free())
		},
		"Mrecv": func(c *mpi.Comm, x []int32) error {
			m, _, err := c.Mprobe(0, 5)
			if err == nil {
				_, err = mpi.Mrecv(m, x)
			}
			return err
		},
		"Sendrecv": func(c *mpi.Comm, x []int32) error {
			_, err := mpi.Sendrecv[int32](c, nil, mpi.ProcNull, 0, x, 0, 5)
			return err
		},
	}
	for name, receive := range receives {
		t.Run(name, func(t *testing.T) {
			runChecked(t, 2, func(p *mpi.Process) error {
				c := p.World()
				for _, n := range []int{0, 1, 1000, 100000, 3000000} {
					if c.Rank() == 0 {
						if err := sendWrong(c, n); err != nil {
							return err
						}
						continue
					}
					if err := receive(c, make([]int32, 2*n)); !errors.Is(err, mpi.ErrType) {
						t.Errorf("%d float64 into int32: %v", n, err)
					} else if text := err.Error(); !strings.Contains(text, "rank 0 sent it with") ||
						strings.Count(text, "mpi/check_test.go:") < 2 {
						t.Errorf("the error is %v", err)
					}
					err := receive(c, make([]int32, n))
					if n == 0 {
						continue
					}
					if !errors.Is(err, mpi.ErrTruncate) || !strings.Contains(err.Error(), "end of int32 at mpi/check_test.go:") {
						t.Errorf("%d numbers for %d: %v", n+1, n, err)
					}
				}
				return nil
			})
		})
	}
}

// sendWrong sends elements of another type than the receive has, and then a message that is too long.
func sendWrong(c *mpi.Comm, n int) error {
	r, err := mpi.Isend(c, make([]float64, n), 1, 5)
	if err == nil {
		_, err = r.Wait()
	}
	return errors.Join(err, mpi.Send(c, make([]int32, n+min(n, 1)), 1, 5))
}

// TestCheckSettings: processes that differ in whether they check their calls do not start; a bad value is refused.
func TestCheckSettings(t *testing.T) {
	t.Setenv("IBRUN_CHECK", "perhaps")
	if _, err := mpi.Init(t.Context(), nil); err == nil || !strings.Contains(err.Error(), `IBRUN_CHECK="perhaps": want 0 or 1`) {
		t.Errorf("Init: %v", err)
	}
	os.Unsetenv("IBRUN_CHECK")
}

// TestCheckedFinalize: Finalize fails at the process that has not received a message, or has not completed a request. It names
// the line of that call.
func TestCheckedFinalize(t *testing.T) {
	for name, test := range map[string]struct {
		mistake func(c *mpi.Comm) error
		says    string
	}{
		"message": {func(c *mpi.Comm) error { return mpi.Send(c, []int{1}, 1, 5) },
			"a message was never received: rank 0 sent it with Send of int64 at mpi/check_test.go:"},
		"request": {func(c *mpi.Comm) error {
			_, err := mpi.Irecv(c, make([]int, 1), 1, 5)
			return err
		}, "a request was never completed by a wait or freed: that of Irecv of int64 at mpi/check_test.go:"},
	} {
		t.Run(name, func(t *testing.T) {
			var failures atomic.Int32
			runChecked(t, 2, func(p *mpi.Process) error {
				if p.World().Rank() == 0 {
					if err := test.mistake(p.World()); err != nil {
						return err
					}
				}
				if err := p.Finalize(); err != nil {
					if failures.Add(1); !strings.Contains(err.Error(), test.says) {
						t.Errorf("rank %d: %v", p.World().Rank(), err)
					}
				}
				if err := p.Finalize(); err == nil || !strings.Contains(err.Error(), "Finalize was called before") {
					t.Errorf("a second Finalize: %v", err)
				}
				return p.Leave()
			})
			if n := failures.Load(); n != 1 {
				t.Errorf("%d ranks fail", n)
			}
		})
	}
}

// liveObjects returns the number of objects of the heap that are in use.
func liveObjects() uint64 {
	runtime.GC()
	runtime.GC() // empties each sync.Pool
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapObjects
}
