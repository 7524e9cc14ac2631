package mpi_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/ibrun/ibrun/mpi"
)

// partitionsOnce starts a partitioned message. The sender marks all partitions, from several goroutines, and the receiver waits
// for each partition and calls arrived.
func partitionsOnce(r mpi.Request, parts int, send bool, arrived func(i int) error) error {
	if err := r.Start(); err != nil {
		return err
	}
	order, errs := rand.New(rand.NewPCG(uint64(parts), 1)).Perm(parts), make([]error, parts)
	var all sync.WaitGroup
	for g := range 3 {
		for at := g; send && at < parts; at += 3 {
			all.Go(func() { errs[at] = r.Pready(order[at]) })
		}
	}
	all.Wait()
	for _, i := range order {
		for ok := send; !ok; {
			var err error
			if ok, err = r.Parrived(i); err != nil {
				return err
			}
			if ok {
				errs = append(errs, arrived(i))
			}
		}
	}
	_, err := r.Wait()
	return errors.Join(append(errs, err)...)
}

// TestPartitionedStructs: structs with padding arrive as by Send and Recv, each partition when Parrived says so, for any numbers
// of partitions at both sides.
func TestPartitionedStructs(t *testing.T) {
	checkedAndNot(t, 2, func(p *mpi.Process) error {
		c := p.World()
		for _, n := range []int{0, 12, 12_000} {
			for _, parts := range [][2]int{{1, 1}, {4, 4}, {12, 3}, {3, 4}, {1, 6}} {
				x, plain := make([]particle, n), make([]particle, n)
				init, mine := mpi.PsendInit[particle], parts[0]
				if c.Rank() == 1 {
					init, mine = mpi.PrecvInit[particle], parts[1]
				}
				r, err := init(c, x, mine, 1-c.Rank(), 5)
				for round := range 3 {
					if c.Rank() == 0 {
						for i := range x {
							x[i] = particle{float32(i), int64(1000*round - i), int8(i)}
						}
						err = errors.Join(err, mpi.Send(c, x, 1, 6))
					} else {
						_, failed := mpi.Recv(c, plain, 0, 6)
						err = errors.Join(err, failed)
					}
					if err != nil {
						return err
					}
					err = partitionsOnce(r, mine, c.Rank() == 0, func(i int) error {
						m := n / mine
						return check(slices.Equal(x[i*m:][:m], plain[i*m:][:m]), "round %d, partition %d of %d differs", round, i, mine)
					})
				}
				if err = errors.Join(err, r.Free()); err != nil {
					return fmt.Errorf("%d elements, %v partitions: %w", n, parts, err)
				}
			}
		}
		return nil
	})
}

// TestPartitionedViews: a column of a matrix arrives in another column, or in a slice, as by Comm.Send and Comm.Recv. What is
// beside the view does not change.
func TestPartitionedViews(t *testing.T) {
	const rows = 6000
	checkedAndNot(t, 2, func(p *mpi.Process) error {
		c := p.World()
		for _, column := range []bool{false, true} {
			x, plain := make([]int64, 3*rows), make([]int64, 3*rows)
			of := func(x []int64) mpi.View { return mpi.ArrayOf(x, rows, 3).Col(1) }
			if c.Rank() == 1 && !column {
				of = func(x []int64) mpi.View { return mpi.ViewOf(x[:rows]) }
			}
			if c.Rank() == 0 {
				for i := range x {
					x[i] = int64(i)
				}
			}
			var r mpi.Request
			var err error
			if c.Rank() == 0 {
				r, err = c.PsendInit(of(x), 4, 1, 5)
				err = errors.Join(err, c.Send(of(x), 1, 6))
			} else {
				r, err = c.PrecvInit(of(x), 6, 0, 5)
				_, failed := c.Recv(of(plain), 0, 6)
				err = errors.Join(err, failed)
			}
			if err != nil {
				return err
			}
			err = partitionsOnce(r, 4+2*c.Rank(), c.Rank() == 0, func(i int) error {
				last := (i+1)*rows/6 - 1
				if column {
					last = 3*last + 1
				}
				return check(x[last] == plain[last] && x[last] != 0, "partition %d ends with %d, want %d", i, x[last], plain[last])
			})
			if c.Rank() == 1 {
				err = errors.Join(err, check(slices.Equal(x, plain), "column %v: the views differ", column))
			}
			if err = errors.Join(err, r.Free()); err != nil {
				return err
			}
		}
		return nil
	})
}

// TestPartitionedViewErrors: partitions begin and end between elements, and the two sides have the same elements.
func TestPartitionedViewErrors(t *testing.T) {
	checkedAndNot(t, 1, func(p *mpi.Process) error {
		c, err := p.World().Dup()
		if err != nil {
			return err
		}
		x := make([]particle, 3)
		_, structs := mpi.PsendInit(c, x, 2, 0, 0)
		_, numbers := c.PrecvInit(mpi.ArrayOf(make([]int32, 6), 3, 2).Col(0), 2, 0, 0)
		_, inside := c.PsendInit(mpi.ArrayOf(make([]int32, 8), 4, 2).Col(0), 8, 0, 0)
		_, none := c.PsendInit(mpi.ViewOf(x), 0, 0, 0)
		_, pointers := mpi.PsendInit(c, make([]*int, 2), 2, 0, 0)
		errs := []error{ofClass(structs, mpi.ErrCount), ofClass(numbers, mpi.ErrCount), ofClass(inside, mpi.ErrCount),
			ofClass(none, mpi.ErrCount), ofClass(pointers, mpi.ErrType)}

		send, err := mpi.PsendInit(c, make([]pair, 2), 2, 0, 1)
		recv, err1 := mpi.PrecvInit(c, make([]riap, 2), 2, 0, 1) // the same numbers in another order
		errs = append(errs, err, err1, send.Start(), recv.Start(), send.PreadyRange(0, 1))
		_, err = recv.Wait()
		return errors.Join(append(errs, ofClass(err, mpi.ErrType))...)
	})
}
