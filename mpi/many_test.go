package mpi_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// The forms of an AllreduceMany.
const blocking, immediate, persistent = 0, 1, 2

// TestAllreduceMany: slices of different lengths are each summed, in all forms, in place and not, with all kinds of algorithms.
func TestAllreduceMany(t *testing.T) {
	lengths := []int{1, 128, 0, 20_000, 7, 128}
	eachAlgorithm(t, []int{1, 2, 3, 6}, func(p *mpi.Process) error {
		w := p.World()
		for _, inPlace := range []bool{false, true} {
			for _, form := range []int{blocking, immediate, persistent} {
				var dsts, srcs [][]int
				for i, n := range lengths {
					src := slices.Repeat([]int{w.Rank() + i}, n)
					dst := src
					if !inPlace {
						dst = make([]int, n)
					}
					srcs, dsts = append(srcs, src), append(dsts, dst)
				}
				results := slices.Clone(dsts)
				err := sumMany(w, dsts, srcs, form)
				for i, dst := range results {
					want := slices.Repeat([]int{w.Size()*(w.Size()-1)/2 + i*w.Size()}, lengths[i])
					err = errors.Join(err, check(slices.Equal(dst, want), "slice %d, in place %v, form %d", i, inPlace, form))
				}
				if err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// sumMany sums slices. After a call that does not block it overwrites the lists of the slices, as a program may. A persistent one
// is started twice, with the same elements.
func sumMany(w *mpi.Comm, dsts, srcs [][]int, form int) error {
	if form == blocking {
		return mpi.AllreduceMany(w, dsts, srcs, mpi.Sum)
	}
	if form == immediate {
		r, err := mpi.IallreduceMany(w, dsts, srcs, mpi.Sum)
		clear(dsts)
		clear(srcs)
		if err == nil {
			_, err = r.Wait()
		}
		return err
	}
	r, err := mpi.AllreduceManyInit(w, dsts, srcs, mpi.Sum)
	if err != nil {
		return err
	}
	var first, elements [][]int
	for _, src := range srcs {
		first, elements = append(first, slices.Clone(src)), append(elements, src)
	}
	clear(dsts)
	clear(srcs)
	for range 2 {
		for i, src := range elements {
			copy(src, first[i])
		}
		if err := r.Start(); err != nil {
			return err
		}
		if _, err := r.Wait(); err != nil {
			return err
		}
	}
	return r.Free()
}

// TestAllreduceManyWrong: wrong arguments are errors, at all ranks if calls are checked, and no rank waits.
func TestAllreduceManyWrong(t *testing.T) {
	long, short := make([]int, 3), make([]int, 2)
	for name, c := range map[string]struct {
		dsts, srcs func(rank int) [][]int
		class      mpi.Class
	}{
		"number": {func(int) [][]int { return [][]int{long} }, func(int) [][]int { return [][]int{long, short} }, mpi.ErrCount},
		"length": {func(int) [][]int { return [][]int{long} }, func(int) [][]int { return [][]int{short} }, mpi.ErrCount},
		"other division at another rank": {
			func(rank int) [][]int { return [][]int{make([]int, 2+rank), make([]int, 3-rank)} },
			func(rank int) [][]int { return [][]int{make([]int, 2+rank), make([]int, 3-rank)} }, mpi.ErrCount,
		},
	} {
		t.Run(name, func(t *testing.T) {
			runChecked(t, 2, func(p *mpi.Process) error {
				w := p.World()
				err := mpi.AllreduceMany(w, c.dsts(w.Rank()), c.srcs(w.Rank()), mpi.Sum)
				r, later := mpi.IallreduceMany(w, c.dsts(w.Rank()), c.srcs(w.Rank()), mpi.Sum)
				if later == nil {
					_, later = r.Wait()
				}
				_, init := mpi.AllreduceManyInit(w, c.dsts(w.Rank()), c.srcs(w.Rank()), mpi.Sum)
				for _, err := range []error{err, later, init} {
					if failed := (*mpi.Error)(nil); !errors.As(err, &failed) || failed.Class != c.class {
						return fmt.Errorf("got %v, want class %v", err, c.class)
					}
				}
				return nil
			})
		})
	}
}

// TestAllreduceManyInter: the call is not defined on an intercommunicator.
func TestAllreduceManyInter(t *testing.T) {
	mpitest.Run(t, 4, func(p *mpi.Process) error {
		c, err := bridgeOfTwo(p)
		if err != nil {
			return err
		}
		x := [][]int{{1}}
		_, later := mpi.IallreduceMany(c, x, x, mpi.Sum)
		_, init := mpi.AllreduceManyInit(c, x, x, mpi.Sum)
		return errors.Join(ofClass(mpi.AllreduceMany(c, x, x, mpi.Sum), mpi.ErrComm), ofClass(later, mpi.ErrComm),
			ofClass(init, mpi.ErrComm))
	})
}
