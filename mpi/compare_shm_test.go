package mpi_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// comparedCollectives are collectives that rank 1 calls differently: the class of the error, what it says, and which ranks of n
// read nothing of rank 1 and so may succeed.
var comparedCollectives = map[string]struct {
	call   func(c *mpi.Comm) error
	class  mpi.Class
	says   []string
	silent func(rank int) bool
}{
	"length": {func(c *mpi.Comm) error {
		x := make([]float64, different(c, 11, 10))
		return mpi.Allreduce(c, x, x, mpi.Sum)
	}, mpi.ErrCount, []string{"Allreduce of 11 elements of float64 (sum) (rank 1)", "Allreduce of 10 elements of float64 (sum) ("},
		nil},
	"long": {func(c *mpi.Comm) error {
		x := make([]float64, different(c, 11000, 10000))
		return mpi.Allreduce(c, x, x, mpi.Sum)
	}, mpi.ErrCount, []string{"Allreduce of 11000 elements", "Allreduce of 10000 elements"}, nil},
	"operation": {func(c *mpi.Comm) error {
		x := make([]float64, 10)
		return mpi.Allreduce(c, x, x, different(c, mpi.Max, mpi.Sum))
	}, mpi.ErrOp, []string{"(max)", "(sum)"}, nil},
	"operation of the program": {func(c *mpi.Comm) error {
		own := mpi.NewOp(true, func(dst, src []int) {})
		return mpi.Reduce(c, make([]int, 1), make([]int, 1), different[mpi.Op](c, own, mpi.Sum), 0)
	}, mpi.ErrOp, []string{"Reduce", "a commutative operation of the program", "(sum) with root 0"},
		func(rank int) bool { return rank > 0 }},
	"type": {func(c *mpi.Comm) error {
		if c.Rank() == 1 {
			x := make([]int32, 4)
			return mpi.Allreduce(c, x, x, mpi.Sum)
		}
		x := make([]float32, 4)
		return mpi.Allreduce(c, x, x, mpi.Sum)
	}, mpi.ErrType, []string{"of int32", "of float32"}, nil},
	"Bcast": {func(c *mpi.Comm) error { return mpi.Bcast(c, make([]int, different(c, 5, 4)), 0) }, mpi.ErrCount,
		[]string{"Bcast of 5 elements of int64 with root 0 (rank 1)", "Bcast of 4 elements of int64 with root 0 (rank 0)"},
		func(rank int) bool { return rank != 1 }},
	"Gather": {func(c *mpi.Comm) error {
		return mpi.Gather(c, make([]int, 2*c.Size()), make([]int, different(c, 3, 2)), 0)
	}, mpi.ErrCount, []string{"Gather of 3 elements", "Gather of 2 elements"}, func(rank int) bool { return rank > 0 }},
	"Scatter": {func(c *mpi.Comm) error {
		return mpi.Scatter(c, make([]int, different(c, 3, 2)), make([]int, 2*c.Size()), 0)
	}, mpi.ErrCount, []string{"Scatter of 3 elements", "Scatter of 2 elements"}, func(rank int) bool { return rank != 1 }},
	"Allgather": {func(c *mpi.Comm) error {
		n := different(c, 3, 2)
		return mpi.Allgather(c, make([]int, n*c.Size()), make([]int, n))
	}, mpi.ErrCount, []string{"Allgather of 3 elements", "Allgather of 2 elements"}, nil},
	"Alltoall": {func(c *mpi.Comm) error {
		x := make([]int, different(c, 3, 2)*c.Size())
		return mpi.Alltoall(c, make([]int, len(x)), x)
	}, mpi.ErrCount, []string{"Alltoall of 3 elements", "Alltoall of 2 elements"}, nil},
	"order": {func(c *mpi.Comm) error {
		if c.Rank() == 1 {
			return c.Barrier()
		}
		x := make([]int, 4)
		return mpi.Allreduce(c, x, x, mpi.Sum)
	}, mpi.ErrOther, []string{"Barrier (rank 1)", "Allreduce of 4 elements of int64 (sum) (rank "}, nil},
	"another collective": {func(c *mpi.Comm) error {
		if c.Rank() == 1 {
			return c.Barrier()
		}
		x := make([]int, 1)
		return mpi.Allgather(c, make([]int, c.Size()), x)
	}, mpi.ErrOther, []string{"Barrier (rank 1)", "Allgather of 1 elements of int64"}, nil},
}

// TestComparedCollectives: over shared memory calls that differ are an error without checks as well. Every later collective that
// needs other ranks returns the same error at every rank; other communicators, messages and Finalize work. Most worlds wait until
// a rank asks whether another has left, so they run beside each other.
func TestComparedCollectives(t *testing.T) {
	t.Setenv("IBRUN_TRANSPORT", "")
	for name, test := range comparedCollectives {
		for n := 2; n <= 4; n++ {
			if n != 3 && (!soaktest.On() || !slices.Contains([]string{"length", "order", "Bcast"}, name)) {
				continue // package coll tests every algorithm with 2 to 4 ranks
			}
			t.Run(fmt.Sprintf("%s/%d", name, n), func(t *testing.T) {
				t.Parallel()
				mpitest.RunWith(t, n, mpitest.Options{Unchecked: true}, func(p *mpi.Process) error {
					c, err := p.World().Dup()
					if err = errors.Join(err, c.Barrier(), c.Barrier()); err != nil {
						return err
					}
					errs := []error{test.call(c), c.Barrier(), mpi.Bcast(c, make([]int, 1), 0), c.Barrier()}
					if errs[0] == nil && test.silent != nil && test.silent(c.Rank()) {
						errs = slices.Delete(errs, 0, 1)
						if errs[0] == nil {
							return errors.New("the Barrier after a difference succeeds")
						}
					}
					for i, err := range errs {
						if !errors.Is(err, test.class) {
							return fmt.Errorf("collective %d: %w, want %w", i, err, test.class)
						}
						for _, part := range append(test.says, "(rank 1)", "Run with ibrun --check") {
							if !strings.Contains(err.Error(), part) {
								return fmt.Errorf("collective %d: %w, want %q in it", i, err, part)
							}
						}
					}
					return p.World().Barrier()
				})
			})
		}
	}
}

// TestComparedRoots: two roots of a Bcast wait for no rank. The next collective in which a rank reads finds the difference.
func TestComparedRoots(t *testing.T) {
	runUnchecked(t, 2, func(p *mpi.Process) error {
		c, err := p.World().Dup()
		if err = errors.Join(err, c.Barrier(), mpi.Bcast(c, []int{1}, c.Rank())); err != nil {
			return err
		}
		err = c.Barrier()
		if !errors.Is(err, mpi.ErrOther) || !strings.Contains(err.Error(), "after earlier collectives that differed") {
			return fmt.Errorf("Barrier: %w", err)
		}
		return nil
	})
}

// runUnchecked runs a world that shares memory, and whose calls are not checked.
func runUnchecked(t *testing.T, n int, f func(p *mpi.Process) error) {
	t.Helper()
	t.Setenv("IBRUN_TRANSPORT", "")
	mpitest.RunWith(t, n, mpitest.Options{Unchecked: true}, f)
}

// uncheck turns checks off for a test that makes on purpose what they reject, or that measures the paths without them.
func uncheck(t *testing.T) {
	t.Helper()
	t.Setenv("IBRUN_CHECK", "0")
}
