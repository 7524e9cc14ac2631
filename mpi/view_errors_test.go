package mpi_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// callsOfWrongViews returns calls on c of one rank that fail, with the classes of their errors.
func callsOfWrongViews(c *mpi.Comm, x []float64, wrong, overlap mpi.View) map[string]func() (mpi.Class, error) {
	return map[string]func() (mpi.Class, error){
		"Send of strings": func() (mpi.Class, error) { return mpi.ErrType, mpi.Send(c, []string{"x"}, 0, 0) },
		"Recv of strings": func() (mpi.Class, error) { return mpi.ErrType, second(mpi.Recv(c, []string{"x"}, 0, 0)) },
		"Comm.Send":       func() (mpi.Class, error) { return mpi.ErrBuffer, c.Send(wrong, 0, 0) },
		"Comm.Isend":      func() (mpi.Class, error) { return mpi.ErrBuffer, second(c.Isend(wrong, 0, 0)) },
		"Comm.SendInit":   func() (mpi.Class, error) { return mpi.ErrBuffer, second(c.SendInit(wrong, 0, 0)) },
		"Comm.Recv":       func() (mpi.Class, error) { return mpi.ErrBuffer, second(c.Recv(wrong, 0, 0)) },
		"Comm.RecvContext": func() (mpi.Class, error) {
			return mpi.ErrBuffer, second(c.RecvContext(context.Background(), wrong, 0, 0))
		},
		"Comm.Irecv":     func() (mpi.Class, error) { return mpi.ErrBuffer, second(c.Irecv(wrong, 0, 0)) },
		"Comm.RecvInit":  func() (mpi.Class, error) { return mpi.ErrBuffer, second(c.RecvInit(wrong, 0, 0)) },
		"Comm.PsendInit": func() (mpi.Class, error) { return mpi.ErrBuffer, second(c.PsendInit(wrong, 1, 0, 0)) },
		"Comm.PrecvInit": func() (mpi.Class, error) { return mpi.ErrType, second(c.PrecvInit(overlap, 1, 0, 0)) },
		"Comm.Sendrecv": func() (mpi.Class, error) {
			return mpi.ErrBuffer, second(c.Sendrecv(mpi.ViewOf(x), 0, 0, wrong, 0, 0))
		},
		"SendrecvReplace": func() (mpi.Class, error) { return mpi.ErrBuffer, second(c.SendrecvReplace(wrong, 0, 0, 0, 0)) },
		"Comm.Bcast":      func() (mpi.Class, error) { return mpi.ErrType, c.Bcast(overlap, 0) },
		"Comm.Gather":     func() (mpi.Class, error) { return mpi.ErrBuffer, c.Gather(mpi.ViewOf(x), wrong, 0) },
		"Comm.Scatter":    func() (mpi.Class, error) { return mpi.ErrBuffer, c.Scatter(wrong, mpi.ViewOf(x), 0) },
		"Comm.Allgather":  func() (mpi.Class, error) { return mpi.ErrType, c.Allgather(overlap, mpi.ViewOf(x)) },
		"Comm.Alltoall":   func() (mpi.Class, error) { return mpi.ErrBuffer, c.Alltoall(wrong, mpi.ViewOf(x)) },
		"Comm.Gatherv":    func() (mpi.Class, error) { return mpi.ErrBuffer, c.Gatherv([]mpi.View{wrong}, mpi.ViewOf(x), 0) },
		"Comm.Scatterv":   func() (mpi.Class, error) { return mpi.ErrBuffer, c.Scatterv(wrong, []mpi.View{mpi.ViewOf(x)}, 0) },
		"Comm.Allgatherv": func() (mpi.Class, error) { return mpi.ErrBuffer, c.Allgatherv([]mpi.View{wrong}, mpi.ViewOf(x)) },
		"Comm.Alltoallw":  func() (mpi.Class, error) { return mpi.ErrBuffer, c.Alltoallw([]mpi.View{wrong}, []mpi.View{wrong}) },
		"Gatherv of structs": func() (mpi.Class, error) {
			return mpi.ErrCount, mpi.Gatherv(c, make([]dense, 1), []int{2}, nil, make([]dense, 2), 0)
		},
		"SendValue": func() (mpi.Class, error) { return mpi.ErrType, mpi.SendValue(c, func() {}, 0, 0) },
		"BcastValue": func() (mpi.Class, error) {
			return mpi.ErrType, second(mpi.BcastValue(c, func() {}, 0))
		},
		"ScatterValue": func() (mpi.Class, error) { return mpi.ErrCount, second(mpi.ScatterValue(c, []int{}, 0)) },
	}
}

// The error of a view is an error of the call that takes it: the handler of the communicator gets it.
func TestHandlersGetErrorsOfViews(t *testing.T) {
	f := typeOf[float64]()
	twice, err := mpi.TypeIndexed([]int{1, 1}, []int{0, 0}, f)
	if err := errors.Join(err, twice.Commit()); err != nil {
		t.Fatal(err)
	}
	x := make([]float64, 4)
	wrong, overlap := mpi.ViewAs(x, 0, f, 5), mpi.ViewAs(x, 0, twice, 1)
	mpitest.Run(t, 1, func(p *mpi.Process) error {
		c, err := p.World().Dup()
		if err != nil {
			return err
		}
		calls := map[*mpi.Comm]int{}
		if err := c.SetErrorHandler(counting(calls)); err != nil {
			return err
		}
		var errs []error
		for name, call := range callsOfWrongViews(c, x, wrong, overlap) {
			before := calls[c]
			class, got := call()
			errs = append(errs, handled(got, class), check(calls[c] == before+1, "%s: %d calls", name, calls[c]-before))
			if e, ok := errors.AsType[*mpi.Error](got); ok {
				errs = append(errs, check(e.Rank == 0, "%s: rank %d", name, e.Rank))
			}
		}
		return errors.Join(append(errs, c.Free())...)
	})
}

// Calls with views on a nil communicator or message fail, whatever the view is.
func TestNilOfViews(t *testing.T) {
	var c *mpi.Comm
	var m *mpi.Message
	v := mpi.ViewOf([]int{1})
	col := mpi.ArrayOf(make([]int, 4), 2, 2).Col(0)
	for _, v := range []mpi.View{v, col, {}} {
		for i, err := range []error{c.Send(v, 0, 0), second(c.Isend(v, 0, 0)), second(c.SendInit(v, 0, 0)), second(c.Recv(v, 0, 0)),
			second(c.Irecv(v, 0, 0)), second(c.RecvInit(v, 0, 0)), second(c.PsendInit(v, 1, 0, 0)), second(c.PrecvInit(v, 1, 0, 0)),
			second(c.Sendrecv(v, 0, 0, v, 0, 0)),
			second(c.SendrecvReplace(v, 0, 0, 0, 0)), c.Bcast(v, 0), c.Gather(v, v, 0), c.Scatter(v, v, 0), c.Allgather(v, v),
			c.Alltoall(v, v), c.Gatherv([]mpi.View{v}, v, 0), c.Scatterv(v, nil, 0), c.Allgatherv([]mpi.View{v}, v),
			c.Alltoallw(nil, nil)} {
			if err := ofClass(err, mpi.ErrComm); err != nil {
				t.Error(i, err)
			}
		}
		if err := errors.Join(ofClass(second(m.Mrecv(v)), mpi.ErrRequest), ofClass(second(m.Imrecv(v)), mpi.ErrRequest)); err != nil {
			t.Error(err)
		}
	}
}
