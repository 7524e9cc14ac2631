package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// TestOne: the calls for one number match those for slices, and have the same results.
func TestOne(t *testing.T) {
	mpitest.Run(t, 3, func(p *mpi.Process) error {
		w := p.World()
		r, n := w.Rank(), w.Size()
		next, before := (r+1)%n, (r+n-1)%n
		is := func(what string, got any, err error, want any) error {
			return errors.Join(err, check(got == want, "%s: %v, want %v", what, got, want))
		}
		errs := []error{mpi.SendOne(w, complex(1, float64(r)), next, 3)}
		z, st, err := mpi.RecvOne[complex128](w, before, mpi.AnyTag)
		errs = append(errs, is("RecvOne", z, err, complex(1, float64(before))), expect(st, before, 3, 16))
		b, st, err := mpi.SendrecvOne(w, r == 1, next, 4, mpi.AnySource, 4)
		errs = append(errs, is("SendrecvOne", b, err, before == 1), expect(st, before, 4, 1))
		errs = append(errs, mpi.Send(w, []int16{}, next, 5), mpi.Send(w, []int16{1, 2}, next, 6))
		none, st, err := mpi.RecvOne[int16](w, before, 5)
		errs = append(errs, is("RecvOne of nothing", none, err, int16(0)), expect(st, before, 5, 0))
		_, _, err = mpi.RecvOneContext[int16](context.Background(), w, before, 6)
		errs = append(errs, wantClass("RecvOneContext of two", err, mpi.ErrTruncate))
		ended, cancel := context.WithCancelCause(context.Background())
		cancel(errStop)
		_, st, err = mpi.RecvOneContext[int16](ended, w, before, 6)
		errs = append(errs, wantStopped("RecvOneContext", err, mpi.ErrOther), check(st.Cancelled(), "%+v", st))
		return errors.Join(append(errs, oneInAll(w, is))...)
	})
}

// TestOneStruct: the calls for one element take structs without pointers, and name those with pointers.
func TestOneStruct(t *testing.T) {
	mpitest.Run(t, 3, func(p *mpi.Process) error {
		w := p.World()
		r, n := w.Rank(), w.Size()
		type body struct {
			Mass float64
			ID   [3]int16
		}
		mine := body{float64(r), [3]int16{int16(r), 1, 2}}
		before := (r + n - 1) % n
		got, st, err := mpi.SendrecvOne(w, mine, (r+1)%n, 1, before, 1)
		errs := []error{err, expect(st, before, 1, 14), check(got == body{float64(before), [3]int16{int16(before), 1, 2}}, "%+v", got)}
		got, err = mpi.BcastOne(w, mine, 1)
		errs = append(errs, err, check(got.Mass == 1, "BcastOne: %+v", got))
		most, err := mpi.AllreduceOne(w, mpi.Located[float64]{Value: float64(-r * r), Index: int32(r)}, mpi.MinLoc)
		errs = append(errs, err, check(most == mpi.Located[float64]{Value: -4, Index: 2}, "MinLoc: %+v", most))
		_, err = mpi.AllreduceOne(w, &mine, mpi.Sum)
		errs = append(errs, wantClass("AllreduceOne of a pointer", err, mpi.ErrType))
		return errors.Join(append(errs, wantClass("SendOne of a string", mpi.SendOne(w, "x", 0, 1), mpi.ErrType))...)
	})
}

func oneInAll(w *mpi.Comm, is func(what string, got any, err error, want any) error) error {
	r, n := w.Rank(), w.Size()
	sums := []int{0, 1, 3, 6}
	x, err := mpi.AllreduceOne(w, r+1, mpi.Sum)
	errs := []error{is("AllreduceOne", x, err, sums[n])}
	x, err = mpi.ReduceOne(w, r+1, mpi.Sum, 1)
	errs = append(errs, is("ReduceOne", x, err, map[bool]int{true: sums[n]}[r == 1]))
	x, err = mpi.ScanOne(w, r+1, mpi.Sum)
	errs = append(errs, is("ScanOne", x, err, sums[r+1]))
	x, err = mpi.ExscanOne(w, r+1, mpi.Sum)
	errs = append(errs, is("ExscanOne", x, err, sums[r]))
	y, err := mpi.BcastOne(w, float32(r), 2)
	errs = append(errs, is("BcastOne", y, err, float32(2)))
	all, err := mpi.AllgatherOne(w, r)
	errs = append(errs, err)
	some, err := mpi.GatherOne(w, r, 1)
	errs = append(errs, err, check(slices.Equal(all, []int{0, 1, 2}) && (r == 1 && slices.Equal(some, all) || r != 1 && some == nil),
		"gathered %v and %v", all, some))
	x, err = mpi.ScatterOne(w, some, 1)
	return errors.Join(append(errs, is("ScatterOne", x, err, r))...)
}

// TestMessages is a task farm: the master gives each worker the next task when its result arrives. Then iterators
// end with their context, and with a message of another type.
func TestMessages(t *testing.T) {
	const tasks, stop = 40, 1
	mpitest.Run(t, 4, func(p *mpi.Process) error {
		w := p.World()
		if w.Rank() != 0 {
			if err := mpi.SendOne(w, -1, 0, 0); err != nil { // asks for the first task
				return err
			}
			for m, err := range mpi.Messages[int](t.Context(), w, 0, mpi.AnyTag) {
				if err != nil || m.Tag == stop {
					return errors.Join(err, w.Barrier())
				}
				if err := mpi.SendOne(w, m.Data[0]*m.Data[0], 0, 0); err != nil {
					return err
				}
			}
		}
		sum, next, workers := 0, 0, w.Size()-1
		for m, err := range mpi.Messages[int](t.Context(), w, mpi.AnySource, 0) {
			if err != nil {
				return err
			}
			sum += max(m.Data[0], 0)
			tag := 0
			if next == tasks {
				tag, workers = stop, workers-1
			}
			if err := mpi.SendOne(w, min(next, tasks-1), m.Source, tag); err != nil || workers == 0 {
				if err != nil {
					return err
				}
				break
			}
			next = min(next+1, tasks)
		}
		return errors.Join(check(sum == 39*40*79/6, "the sum is %d", sum), w.Barrier(), messagesEnd(p.Self()))
	})
}

// messagesEnd ends iterators over the messages of a process to itself.
func messagesEnd(c *mpi.Comm) error {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	var got []int
	for i := range 3 {
		if _, err := mpi.Isend(c, numbers(i, i), 0, i); err != nil {
			return err
		}
	}
	var last error
	for m, err := range c.Messages(ctx, mpi.AnySource, mpi.AnyTag) {
		if last = err; err != nil {
			continue
		}
		x := make([]int32, m.Status().Bytes()/4)
		if _, err := mpi.Mrecv(m, x); err != nil {
			return err
		}
		if got = append(got, m.Status().Tag); len(got) == 3 {
			cancel(errStop)
		}
	}
	if err := wantStopped("Comm.Messages", last, mpi.ErrOther); err != nil || !slices.Equal(got, []int{0, 1, 2}) {
		return fmt.Errorf("%v: %w", got, err)
	}
	if _, err := mpi.Isend(c, []int8{1, 2, 3}, 0, 0); err != nil {
		return err
	}
	for _, err := range mpi.Messages[int16](context.Background(), c, 0, 0) {
		last = err
	}
	return ofClass(last, mpi.ErrType)
}
