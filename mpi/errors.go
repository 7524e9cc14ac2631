package mpi

import "github.com/ibrun/ibrun/mpi/internal/core"

// Class is an error class. It implements error, so errors.Is(err, mpi.ErrTruncate) reports whether err has that
// class. MPI-5.0 §9.4.
type Class int32

// The error classes in use, with the numbers of the MPI-5.0 ABI (§20.3). ErrProcFailed has no number there yet.
const (
	ErrBuffer     Class = core.ErrBuffer     // buffers overlap or are too small, a view exceeds its slice, or no buffer is attached
	ErrCount      Class = core.ErrCount      // a count is negative, or does not fit the buffer
	ErrType       Class = core.ErrType       // element types of ranks differ, or a datatype or Go type cannot be used
	ErrTag        Class = core.ErrTag        // a tag is out of range, or AnyTag is used although a hint excludes it
	ErrComm       Class = core.ErrComm       // the communicator is nil or freed
	ErrRank       Class = core.ErrRank       // a rank is out of range, or AnySource is used although a hint excludes it
	ErrRequest    Class = core.ErrRequest    // the request has already been completed or freed, or is in the wrong state
	ErrRoot       Class = core.ErrRoot       // a root is not in the communicator
	ErrGroup      Class = core.ErrGroup      // the group is nil, belongs to another session, or lacks this process
	ErrOp         Class = core.ErrOp         // the operation is not defined on the element type
	ErrTopology   Class = core.ErrTopology   // the communicator has no topology, or another one
	ErrDims       Class = core.ErrDims       // the dimensions of a grid are wrong, or there is no such dimension
	ErrArg        Class = core.ErrArg        // some other argument is wrong
	ErrTruncate   Class = core.ErrTruncate   // the message was longer than the buffer, which holds the beginning of it
	ErrOther      Class = core.ErrOther      // an error without a class of its own; see the wrapped error
	ErrPending    Class = core.ErrPending    // the wait has ended before the operation, which continues
	ErrInStatus   Class = core.ErrInStatus   // some requests of several failed: the wrapped error is the first
	ErrInfoKey    Class = core.ErrInfoKey    // an info key is empty or too long
	ErrInfoNoKey  Class = core.ErrInfoNoKey  // an info key does not exist
	ErrInfoValue  Class = core.ErrInfoValue  // an info value is too long
	ErrInfo       Class = core.ErrInfo       // the info is nil
	ErrKeyval     Class = core.ErrKeyval     // the key is the zero Keyval, has been freed, or belongs to another process
	ErrNoMem      Class = core.ErrNoMem      // memory is exhausted, or cannot be pinned for a device
	ErrSession    Class = core.ErrSession    // the session is nil or closed
	ErrProcFailed Class = core.ErrProcFailed // a process was lost
)

// Error names the class.
func (c Class) Error() string { return core.Class(c).Error() }

// Error is the error type of this package. errors.Is matches its Class and the error it wraps. MPI-5.0 §9.4.
type Error struct {
	// Class is the error class.
	Class Class
	// Op is the call, such as "Recv".
	Op string
	// Rank is the rank of the calling process: in the communicator of the call, or in the job if the call has none. It is -1
	// for calls that name neither, such as Wait.
	Rank int
	// Err is the cause. It may be nil.
	Err error
	// Where is the source position of the call, such as "solver/main.go:31". It is empty unless the calls of the process are
	// checked; see Config.Check. It is set in calls that have no process.
	Where string
}

// Error returns the call, the rank, the source position, the class and the cause.
func (e *Error) Error() string {
	return (&core.Error{Class: core.Class(e.Class), Op: e.Op, Rank: e.Rank, Err: e.Err, Where: e.Where}).Error()
}

// Unwrap returns the class and the wrapped error.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Class}
	}
	return []error{e.Class, e.Err}
}

// public returns an error of core as users get it, after its handler was called. It is inlined: a call
// that succeeds costs one comparison more.
func public(err error) error {
	if err == nil {
		return nil
	}
	return convert(core.Handle(err))
}

// result returns the error of the call op of a communicator, a session or a process, in which err was
// found: that it cannot be used, or err.
func result(of interface {
	CallResult(op string, err error) error
}, op string, err error) error {
	return public(of.CallResult(op, err))
}

// public2 is public for a call that returns another result before the error.
func public2[T any](x T, err error) (T, error) { return x, public(err) }

// public3 is public for a call that returns two others.
func public3[T, U any](x T, y U, err error) (T, U, error) { return x, y, public(err) }

// convert replaces the errors of core in a tree of errors. Those that core wraps are not changed: they contain none of core.
func convert(err error) error {
	switch e := err.(type) {
	case *core.Error:
		return &Error{Class(e.Class), e.Op, e.Rank, convert(e.Err), e.Where}
	case *core.RequestError:
		return &core.RequestError{Index: e.Index, Err: convert(e.Err)}
	case core.ErrorList:
		all := make(core.ErrorList, len(e))
		for i := range e {
			all[i] = convert(e[i])
		}
		return all
	}
	return err
}

// classOf returns the class of an error of this package, for core: callbacks return such errors.
func classOf(err error) (core.Class, bool) {
	e, ok := err.(*Error)
	if !ok {
		return 0, false
	}
	return core.Class(e.Class), true
}
