package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/internal/bootstrap"
	"github.com/ibrun/ibrun/mpi/internal/core"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// ofClass checks that a call failed with an error of this class, and that it is an *Error of this package.
func ofClass(err error, class mpi.Class) error {
	var e *mpi.Error
	if !errors.Is(err, class) || !errors.As(err, &e) || e.Class != class || !strings.Contains(err.Error(), class.Error()) {
		return fmt.Errorf("got %w, want an error of class %q", err, class)
	}
	return public(err)
}

// public returns an error if err contains an error of package core, whose class users cannot match.
func public(err error) error {
	switch e := err.(type) {
	case *core.Error, core.Class:
		return fmt.Errorf("%T in the error %q", e, err)
	case interface{ Unwrap() error }:
		return public(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			if err := public(err); err != nil {
				return err
			}
		}
	}
	return nil
}

// wrong returns calls that are invalid at every rank, with the class of their errors.
func wrong(c *mpi.Comm) map[string]struct {
	class mpi.Class
	err   error
} {
	n, x := c.Size(), make([]int32, 8*c.Size())
	y, z := make([]int32, len(x)), make([]complex64, 4)
	ones, huge, minus := make([]int, n), make([]int, n), make([]int, n)
	for i := range ones {
		ones[i], huge[i] = 1, math.MaxInt/2+1
	}
	minus[0], minus[n-1] = 1, -1
	one := x[:1]
	return map[string]struct {
		class mpi.Class
		err   error
	}{
		"root -1":               {mpi.ErrRoot, mpi.Bcast(c, x, -1)},
		"root n":                {mpi.ErrRoot, mpi.Reduce(c, x, y, mpi.Sum, n)},
		"root of gather":        {mpi.ErrRoot, mpi.Gather(c, x, x[:8], mpi.ProcNull)},
		"root of scatter":       {mpi.ErrRoot, mpi.Scatter(c, x[:8], x, n)},
		"root of gatherv":       {mpi.ErrRoot, mpi.Gatherv(c, x, ones, nil, one, mpi.AnySource)},
		"root of scatterv":      {mpi.ErrRoot, mpi.Scatterv(c, one, x, ones, nil, 1<<40)},
		"no operation":          {mpi.ErrOp, mpi.Allreduce(c, x, y, nil)},
		"max of complex":        {mpi.ErrOp, mpi.Allreduce(c, z, z, mpi.Max)},
		"band of float":         {mpi.ErrOp, mpi.Scan(c, []float64{1}, []float64{2}, mpi.Band)},
		"sum of bool":           {mpi.ErrOp, mpi.Exscan(c, []bool{true}, []bool{true}, mpi.Sum)},
		"unknown operation":     {mpi.ErrOp, mpi.Allreduce(c, x, y, mpi.Predefined(0))},
		"far operation":         {mpi.ErrOp, mpi.Allreduce(c, x, y, mpi.Predefined(255))},
		"operation of others":   {mpi.ErrOp, mpi.Allreduce(c, x, y, mpi.NewOp(true, func(_, _ []float32) {}))},
		"short dst":             {mpi.ErrCount, mpi.Allreduce(c, y[:3], x[:4], mpi.Sum)},
		"short whole":           {mpi.ErrCount, mpi.Allgather(c, y[:n], x[:2])},
		"elements in parts":     {mpi.ErrCount, mpi.Alltoall(c, y[:n+1], x[:n+1])},
		"in place in parts":     {mpi.ErrCount, mpi.Allgather(c, x[:n+1], x[:n+1])},
		"counts of too few":     {mpi.ErrCount, mpi.Allgatherv(c, y, ones[1:], nil, one)},
		"negative count":        {mpi.ErrCount, mpi.Allgatherv(c, y, minus, nil, one)},
		"negative displacement": {mpi.ErrCount, mpi.Allgatherv(c, y, ones, minus, one)},
		"beyond the buffer":     {mpi.ErrCount, mpi.Allgatherv(c, y[:n-1], ones, nil, one)},
		"displaced beyond":      {mpi.ErrCount, mpi.Allgatherv(c, y, ones, huge, one)},
		"displacements missing": {mpi.ErrCount, mpi.Allgatherv(c, y, ones, ones[1:], one)},
		"own block":             {mpi.ErrCount, mpi.Allgatherv(c, y, ones, nil, x[:2])},
		"counts beyond numbers": {mpi.ErrCount, mpi.ReduceScatter(c, x[:0], x[:0], huge, mpi.Sum)},
		"sum of counts":         {mpi.ErrCount, mpi.ReduceScatter(c, y, x[:n+1], ones, mpi.Sum)},
		"result too short":      {mpi.ErrCount, mpi.ReduceScatter(c, y[:0], x[:n], ones, mpi.Sum)},
		"send counts":           {mpi.ErrCount, mpi.Alltoallv(c, y, ones, nil, x, nil, nil)},
		"overlap":               {mpi.ErrBuffer, mpi.Allreduce(c, x[1:5], x[:4], mpi.Sum)},
		"overlap at the start":  {mpi.ErrBuffer, mpi.Alltoallv(c, x[:4*n], ones, nil, x[:5*n], ones, nil)},
		"overlap of alltoall":   {mpi.ErrBuffer, mpi.Alltoall(c, x[:2*n], x[n:3*n])},
		"overlap of allgather":  {mpi.ErrBuffer, mpi.Allgather(c, x[:2*n], x[2*n-1:2*n+1])},
		"overlap of scan":       {mpi.ErrBuffer, mpi.Scan(c, x[:4], x[3:7], mpi.Sum)},
		"overlap of scatter":    {mpi.ErrBuffer, mpi.ReduceScatter(c, x[1:2], x[:n], ones, mpi.Sum)},
		"Free of World":         {mpi.ErrComm, c.Free()},
	}
}

// TestWrongCollectives: an error at all ranks is returned at all of them, and the communicator remains usable.
func TestWrongCollectives(t *testing.T) {
	eachAlgorithm(t, []int{2, 3, 4}, func(p *mpi.Process) error {
		errs := []error{checkSum(p.World())}
		for name, call := range wrong(p.World()) {
			if err := ofClass(call.err, call.class); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", name, err))
			}
		}
		return errors.Join(append(errs, checkSum(p.World()))...)
	})
}

// TestWrongAtRoot: an invalid argument that only root uses is rejected there; the messages of the other ranks do not
// disturb later collectives.
func TestWrongAtRoot(t *testing.T) {
	mpitest.Run(t, 1, func(p *mpi.Process) error {
		x := make([]int, 4)
		return errors.Join(
			ofClass(mpi.Reduce(p.World(), x[:2], x, mpi.Sum, 0), mpi.ErrCount),
			ofClass(mpi.Gather(p.World(), x[:2], x, 0), mpi.ErrCount),
			ofClass(mpi.Gatherv(p.World(), x, []int{5}, nil, x, 0), mpi.ErrCount),
			ofClass(mpi.Scatterv(p.World(), x[:1], x[1:], []int{1}, []int{3}, 0), mpi.ErrCount),
		)
	})
}

func TestFreed(t *testing.T) {
	eachAlgorithm(t, []int{1, 3}, func(p *mpi.Process) error {
		c, err := p.World().Dup()
		if err != nil {
			return err
		}
		waiting, err := mpi.Irecv(c, make([]int, 1), mpi.AnySource, mpi.AnyTag)
		if err != nil {
			return err
		}
		if err := c.Free(); err != nil {
			return err
		}
		x := make([]int, c.Size())
		_, waited := waiting.Wait()
		_, dup := c.Dup()
		_, split := c.Split(0, 0)
		_, recv := mpi.Recv(c, x, 0, 0)
		_, _, probe := c.Iprobe(0, 0)
		errs := []error{checkSum(p.World())}
		for _, err := range []error{
			waited, dup, split, recv, probe, mpi.Send(c, x, 0, 0), c.Barrier(), mpi.Bcast(c, x, 0), mpi.Allgather(c, x, x), c.Free(),
			mpi.Allreduce(c, x, x, mpi.Sum), mpi.Alltoall(c, x, x), mpi.Scan(c, x, x, mpi.Sum), (*mpi.Comm)(nil).Barrier(),
			(*mpi.Comm)(nil).Free(), mpi.Send((*mpi.Comm)(nil), x, 0, 0),
		} {
			errs = append(errs, ofClass(err, mpi.ErrComm))
		}
		return errors.Join(errs...)
	})
}

// TestTwoAtOnce: a second collective on a communicator is rejected while the first is in progress, and does not
// disturb it.
func TestTwoAtOnce(t *testing.T) {
	eachAlgorithm(t, []int{2}, func(p *mpi.Process) error {
		w := p.World()
		if err := w.Barrier(); err != nil {
			return err
		}
		if w.Rank() == 1 { // which comes when rank 0 has seen what it should
			_, err := mpi.Recv(w, []int{0}, 0, 0)
			return errors.Join(err, checkSum(w))
		}
		x, first := []int{0}, make(chan error, 1)
		go func() { first <- mpi.Allreduce(w, x, x, mpi.Sum) }()
		var err error
		for err == nil {
			// Both are the same call, so that it does not matter which of the two rank 1 meets.
			second := make(chan error, 1)
			y := []int{0}
			go func() { second <- mpi.Allreduce(w, y, y, mpi.Sum) }()
			select {
			case err = <-second:
				second = nil
			case err = <-first:
				first = second
			}
		}
		if err := ofClass(err, mpi.ErrComm); err != nil {
			return err
		}
		return errors.Join(mpi.Send(w, []int{1}, 1, 0), <-first)
	})
}

// TestSleepBoth: a goroutine that waits for a message and one in a collective of the same process sleep at the same
// time.
func TestSleepBoth(t *testing.T) {
	eachAlgorithm(t, []int{2}, func(p *mpi.Process) error {
		w := p.World()
		c, err := w.Dup()
		if err != nil {
			return err
		}
		if err := c.Barrier(); err != nil {
			return err
		}
		if w.Rank() == 1 {
			time.Sleep(100 * time.Millisecond) // until both sleep; the test also passes if they do not
			// The second waits for rank 0 to have woken from the first.
			return errors.Join(c.Barrier(), c.Barrier(), mpi.Send(w, []int{1}, 0, 0), c.Free())
		}
		var recv error
		var both sync.WaitGroup
		both.Go(func() { _, recv = mpi.Recv(w, []int{0}, 1, 0) })
		both.Go(func() {
			time.Sleep(30 * time.Millisecond)
			err = errors.Join(c.Barrier(), c.Barrier())
		})
		both.Wait()
		return errors.Join(recv, err, c.Free())
	})
}

// TestWtime: Wtime counts seconds.
func TestWtime(t *testing.T) {
	mpitest.Run(t, 1, func(p *mpi.Process) error {
		before := time.Now()
		first := p.Wtime()
		after := time.Now()
		if first < 0 {
			return fmt.Errorf("Wtime returned %v", first)
		}
		for most := 0.0; most < 3e-3; {
			least := time.Since(after).Seconds()
			took := p.Wtime() - first
			most = time.Since(before).Seconds()
			if took < least-1e-6 || took > most+1e-6 {
				return fmt.Errorf("from %v on Wtime has counted %v s, want from %v to %v", first, took, least, most)
			}
		}
		return nil
	})
}

func TestFinalizeTwice(t *testing.T) {
	uncheck(t)
	eachAlgorithm(t, []int{1, 3}, func(p *mpi.Process) error {
		d, err := p.World().Dup()
		if err != nil {
			return err
		}
		errs := []error{d.Barrier(), p.Finalize(), p.Finalize(), ofClass(p.World().Barrier(), mpi.ErrComm)}
		if err := d.Barrier(); err == nil && d.Size() > 1 {
			errs = append(errs, errors.New("a barrier after Finalize"))
		}
		return errors.Join(append(errs, ofClass(mpi.Send(p.Self(), []int{1}, 0, 0), mpi.ErrComm))...)
	})
}

// TestFatal: with Config.Fatal the first error of any call aborts the job.
func TestFatal(t *testing.T) {
	calls := map[string]func(p *mpi.Process) error{
		"collective": func(p *mpi.Process) error { return mpi.Bcast(p.World(), []int{1}, 9) },
		"send":       func(p *mpi.Process) error { return mpi.Send(p.World(), []int{1}, 9, 0) },
		"request": func(p *mpi.Process) error {
			r, err := mpi.Irecv(p.Self(), []int{1}, 0, 0)
			if err := errors.Join(err, mpi.Send(p.Self(), []int{1, 2}, 0, 0)); err != nil {
				return err
			}
			_, err = r.Wait()
			return err
		},
		"process": func(p *mpi.Process) error {
			_, err := p.BufferDetach()
			return err
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			at, err := bootstrap.FromEnv(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			var why []string
			at.Abort = func(code int, text string) error {
				why = append(why, fmt.Sprint(code, " ", text))
				return errors.New("aborted")
			}
			p, err := mpi.Init(bootstrap.WithProcess(context.Background(), at), &mpi.Config{Fatal: true})
			if err != nil {
				t.Fatal(err)
			}
			err = call(p)
			if err == nil || len(why) != 1 || why[0] != "1 "+err.Error() {
				t.Errorf("%v ended the job with %q", err, why)
			}
			if err := p.Finalize(); err != nil {
				t.Error(err)
			}
		})
	}
}
