package mpi

import (
	"math"

	"github.com/ibrun/ibrun/mpi/internal/core"
	"github.com/ibrun/ibrun/mpi/internal/datatype"
)

// Grequest is a generalized request: an operation of the program that is waited for as those of this package are, alone or among
// them, with Wait, [Waitany] or [Request.Done]. Its field Request is the request; elements of a []Request may be set to it. It is
// a small value; copies refer to the same operation. MPI-5.0 §13.2.
type Grequest struct{ Request }

// GrequestFuncs are the callbacks of a generalized request. Each may be nil. A callback may call any function, but must return:
// it must not call [runtime.Goexit], as the FailNow of tests does. MPI-5.0 §13.2.
//
// An error that a callback returns is returned by the call that ran it, in an Error with the class of that error, or ErrOther if
// it has none. A panic is such an error, which wraps an *attrs.PanicError. The request is used up nevertheless.
type GrequestFuncs struct {
	// Query is called when the request has been completed and is waited for. It sets the fields of st, which is that of a call
	// without a message, and calls SetElements and SetCancelled. Its error is that of the operation.
	Query func(st *Status) error
	// Free is called once, to release what the operation has used: after Query, or, if the request was released by
	// Request.Free, by the later one of Request.Free and Complete.
	Free func() error
	// Cancel is called by Request.Cancel. It may end the operation early. Complete must still be called, unless complete says
	// that it was, and the request must be waited for.
	Cancel func(complete bool) error
}

// NewGrequest returns a generalized request with callbacks, in progress. The program carries out the operation, for example in a
// goroutine, and then calls Complete. The callbacks are called in the goroutine that calls Wait, Test or the like, Cancel, Free
// or Complete. It fails with ErrOther if this process has left the job. MPI-5.0 §13.2.
func (p *Process) NewGrequest(f GrequestFuncs) (Grequest, error) {
	c := core.GrequestFuncs{Free: f.Free, Cancel: f.Cancel}
	if f.Query != nil {
		c.Query = func(st *core.Status) error {
			s := statusOf(*st)
			err := f.Query(&s)
			*st = core.Status{Source: s.Source, Tag: s.Tag, Bytes: s.bytes, Cancelled: s.cancelled}
			return err
		}
	}
	r, err := request(p.core().NewGrequest(c))
	return Grequest{r}, err
}

// Complete reports that the operation is complete. What the goroutine has done before is visible to the one that then waits for
// the request. A second call fails with ErrRequest. If the request was freed before, Complete runs the callback Free and returns
// its error. MPI-5.0 §13.2.
func (g Grequest) Complete() error { return public(g.core().CompleteGrequest()) }

// SetCount sets the number of elements of type T that the message of a status has: [Count] then returns n. It fails with ErrCount
// if n is negative or too large, and with ErrType if T is not a type of elements. It is for the Query callback of a generalized
// request. MPI-5.0 §13.3.
func SetCount[T any](st *Status, n int) error {
	const op = "SetCount"
	typ, err := core.ElementsFor[T]()
	if err != nil {
		return public(core.TypeError(op, err))
	}
	return st.setElements(op, typ, int64(n), typ.Elements())
}

// SetElements sets the number of basic elements of datatype t that the message of a status has: numbers, not structs. Then
// [Status.Elements] returns n; [Status.Count] and [Status.Bytes] follow from it. It fails with ErrCount if t has no elements, or
// if n is negative or too large. It is for the Query callback of a generalized request. MPI-5.0 §13.3.
func (s *Status) SetElements(t *Datatype, n int) error {
	const op = "Status.SetElements"
	typ, err := t.core().Type(op)
	if err != nil {
		return public(err)
	}
	return s.setElements(op, typ, int64(n), 1)
}

// setElements sets the number of basic elements of datatype t to n times each.
func (s *Status) setElements(op string, t *datatype.Type, n, each int64) error {
	bytes, ok := int64(0), false
	if each = max(each, 1); n >= 0 && n <= math.MaxInt64/each {
		bytes, ok = t.SizeOf(n * each)
	}
	if !ok || int64(int(bytes)) != bytes {
		return countError(op, "%d elements of a type of %d bytes", n, t.Size())
	}
	s.bytes = int(bytes)
	return nil
}

// SetCancelled sets what [Status.Cancelled] reports. It is for the Query callback of a generalized request. MPI-5.0 §13.3.
func (s *Status) SetCancelled(cancelled bool) { s.cancelled = cancelled }
