package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/ibrun/ibrun/mpi"
)

// TestZeroReceivers calls every method with a nil pointer or the zero value as its receiver, and zero arguments. None of them
// panics. Calls that need a communicator, a process or another object return an error.
func TestZeroReceivers(t *testing.T) {
	for _, c := range []struct {
		receiver any
		fails    bool // each method that returns an error returns one
	}{
		{(*mpi.Comm)(nil), true}, {&mpi.Comm{}, true},
		{(*mpi.Process)(nil), true}, {&mpi.Process{}, true},
		{(*mpi.Session)(nil), true}, {&mpi.Session{}, true},
		{(*mpi.Message)(nil), true}, {&mpi.Message{}, true},
		{(*mpi.Datatype)(nil), true}, {&mpi.Datatype{}, true},
		{(*mpi.Group)(nil), true}, {&mpi.Group{}, false}, // the zero Group is empty
		{(*mpi.Info)(nil), false}, {&mpi.Info{}, false},
		{mpi.Request{}, false}, {mpi.Grequest{}, false},
		{mpi.Status{}, false}, {&mpi.Status{}, false}, {mpi.View{}, false}, {&mpi.Error{}, false},
		{mpi.ErrorHandler{}, false}, {mpi.Keyval[int]{}, false}, {mpi.TypeKeyval[int]{}, false},
	} {
		v := reflect.ValueOf(c.receiver)
		for i := range v.NumMethod() {
			name := fmt.Sprintf("%v.%s", v.Type(), v.Type().Method(i).Name)
			fails, panicked, err := callWithZeros(t.Context(), v.Method(i), nil)
			if panicked != nil {
				t.Errorf("%s panics: %.100v", name, panicked)
			} else if c.fails && fails && err == nil {
				t.Errorf("%s returns no error", name)
			}
		}
	}
}

// TestFunctionsWithoutCommunicator: the functions over slices and values return errors if the communicator is nil or the zero
// Comm: of class ErrComm, or ErrType if they find the type of the elements first.
func TestFunctionsWithoutCommunicator(t *testing.T) {
	type structure struct{ A, B int32 }
	for i, f := range []any{
		mpi.Send[int], mpi.Ssend[structure], mpi.Recv[int], mpi.Recv[structure], mpi.Sendrecv[int, int], mpi.Isend[int],
		mpi.Irecv[structure], mpi.SendInit[int], mpi.PrecvInit[int], mpi.SendContext[int], mpi.RecvContext[structure],
		mpi.SendOne[int], mpi.RecvOne[int], mpi.SendValue[string], mpi.RecvValue[string], mpi.BcastValue[string],
		mpi.GatherValue[string], mpi.ScatterValue[string], mpi.AllgatherValue[string], mpi.AlltoallValue[string],
		mpi.Bcast[int], mpi.Bcast[structure], mpi.Gather[int], mpi.Gatherv[structure], mpi.Scatter[int], mpi.Scatterv[structure],
		mpi.Allgather[int], mpi.Allgatherv[structure], mpi.Alltoall[int], mpi.Alltoallv[structure], mpi.GatherOne[int],
		mpi.AllgatherOne[int], mpi.ScatterOne[int], mpi.ReduceOne[int], mpi.AllreduceOne[int], mpi.ScanOne[int],
		mpi.Reduce[int], mpi.Allreduce[structure], mpi.AllreduceMany[int], mpi.ReduceScatter[int], mpi.ReduceScatterBlock[structure],
		mpi.Scan[int], mpi.Exscan[int], mpi.Ibcast[int], mpi.Iallreduce[structure], mpi.IreduceScatterBlock[structure],
		mpi.AllreduceInit[int], mpi.ReduceScatterBlockInit[structure], mpi.NeighborAllgather[int], mpi.NeighborAlltoallv[structure],
		mpi.IneighborAlltoall[int], mpi.NeighborAllgatherInit[int], mpi.Send[string], mpi.Recv[string], mpi.Bcast[string],
		mpi.Allgatherv[string], mpi.Alltoallv[string], mpi.Allreduce[string], mpi.SendOne[string], mpi.SendValue[func()],
	} {
		for _, c := range []*mpi.Comm{nil, {}} {
			fails, panicked, err := callWithZeros(t.Context(), reflect.ValueOf(f), c)
			if !fails || panicked != nil || !errors.Is(err, mpi.ErrComm) && !errors.Is(err, mpi.ErrType) {
				t.Errorf("function %d of the list, %T: %v, %.100v; want an error", i, f, err, panicked)
			}
		}
	}
	x, counts := []structure{{}, {}}, []int{1, 1}
	for _, c := range []*mpi.Comm{nil, {}} {
		if err := mpi.Allgatherv(c, x, counts, nil, x); !errors.Is(err, mpi.ErrComm) {
			t.Errorf("Allgatherv in place: %v", err)
		}
		if err := mpi.Alltoallv(c, x, []int{3}, nil, x, []int{3}, nil); err == nil {
			t.Error("Alltoallv with wrong counts: no error")
		}
	}
}

// TestFunctionsWithoutProcess: the functions that take a process return errors if it is nil or the zero Process.
func TestFunctionsWithoutProcess(t *testing.T) {
	for _, p := range []*mpi.Process{nil, {}} {
		_, errAlloc := mpi.Alloc[int](p, 1)
		for _, err := range []error{errAlloc, mpi.Register(p, []int{1}), mpi.Unregister(p, []int{1})} {
			if !errors.Is(err, mpi.ErrOther) {
				t.Errorf("%v; want an error of class ErrOther", err)
			}
		}
		key, typeKey := mpi.NewKeyval(p, mpi.DupCopy[int], nil), mpi.NewTypeKeyval(p, mpi.TypeDupCopy[int], nil)
		if err := key.Free(); !errors.Is(err, mpi.ErrKeyval) {
			t.Errorf("Keyval.Free: %v", err)
		}
		if err := typeKey.Free(); !errors.Is(err, mpi.ErrKeyval) {
			t.Errorf("TypeKeyval.Free: %v", err)
		}
	}
}

// callWithZeros calls a function with zero arguments, and c as its communicators. It reports whether the last result is an error.
func callWithZeros(ctx context.Context, f reflect.Value, c *mpi.Comm) (fails bool, panicked any, err error) {
	defer func() { panicked = recover() }()
	var args []reflect.Value
	for i := range f.Type().NumIn() {
		switch in := f.Type().In(i); {
		case f.Type().IsVariadic() && i == f.Type().NumIn()-1:
		case in == reflect.TypeFor[context.Context]():
			args = append(args, reflect.ValueOf(ctx))
		case in == reflect.TypeFor[*mpi.Comm]():
			args = append(args, reflect.ValueOf(c))
		case in == reflect.TypeFor[error]():
			args = append(args, reflect.ValueOf(errors.ErrUnsupported))
		default:
			args = append(args, reflect.Zero(in))
		}
	}
	results := f.Call(args)
	n := f.Type().NumOut()
	if n == 0 || f.Type().Out(n-1) != reflect.TypeFor[error]() {
		return false, nil, nil
	}
	err, _ = results[n-1].Interface().(error)
	return true, nil, err
}
