package mpi

import (
	"errors"
	"fmt"

	"github.com/ibrun/ibrun/attrs"
	"github.com/ibrun/ibrun/mpi/internal/proto"
)

// Class is an error class. It implements error, so errors.Is(err, mpi.ErrTruncate) reports whether err has that
// class. MPI-5.0 §9.4.
type Class int32

// The error classes in use, with the numbers of the MPI-5.0 ABI (§20.3). ErrProcFailed has no number there yet.
const (
	ErrBuffer     Class = 1   // buffers overlap or are too small, or no buffer is attached
	ErrCount      Class = 2   // a count is negative, or does not fit the buffer
	ErrType       Class = 3   // the element types of a message and its receive, or of the ranks of a collective, differ
	ErrTag        Class = 4   // a tag is out of range, or AnyTag is used although a hint excludes it
	ErrComm       Class = 5   // the communicator is nil or freed
	ErrRank       Class = 6   // a rank is out of range, or AnySource is used although a hint excludes it
	ErrRequest    Class = 7   // the request has already been completed or freed, or is in the wrong state
	ErrRoot       Class = 8   // a root is not in the communicator
	ErrGroup      Class = 9   // the group is nil, belongs to another session, or lacks this process
	ErrOp         Class = 10  // the operation is not defined on the element type
	ErrTopology   Class = 11  // the communicator has no graph
	ErrArg        Class = 13  // some other argument is wrong
	ErrTruncate   Class = 15  // the message was longer than the buffer, which holds the beginning of it
	ErrOther      Class = 16  // an error without a class of its own; see the wrapped error
	ErrInStatus   Class = 19  // some requests of several failed: the wrapped error is the first
	ErrInfoKey    Class = 31  // an info key is empty or too long
	ErrInfoNoKey  Class = 32  // an info key does not exist
	ErrInfoValue  Class = 33  // an info value is too long
	ErrInfo       Class = 34  // the info is nil
	ErrKeyval     Class = 36  // the key is the zero Keyval, has been freed, or belongs to another process
	ErrNoMem      Class = 39  // memory is exhausted, or cannot be pinned for a device
	ErrSession    Class = 60  // the session is nil or closed
	ErrProcFailed Class = 101 // a process was lost
)

var classText = map[Class]string{
	ErrBuffer: "invalid buffer", ErrCount: "invalid count",
	ErrType: "invalid element type", ErrTag: "invalid tag", ErrComm: "invalid communicator",
	ErrRank: "invalid rank", ErrRequest: "invalid request", ErrRoot: "invalid root", ErrGroup: "invalid group",
	ErrOp: "invalid operation", ErrTopology: "invalid topology", ErrArg: "invalid argument", ErrOther: "error",
	ErrTruncate: "message truncated", ErrInStatus: "error in status",
	ErrInfoKey: "invalid info key", ErrInfoNoKey: "no such info key", ErrInfoValue: "invalid info value",
	ErrInfo: "invalid info", ErrKeyval: "invalid key of an attribute", ErrNoMem: "no memory",
	ErrSession: "invalid session", ErrProcFailed: "process failed",
}

// Error names the class.
func (c Class) Error() string {
	if s, ok := classText[c]; ok {
		return s
	}
	return fmt.Sprintf("error class %d", int32(c))
}

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
	s := "mpi: " + e.Op
	if e.Rank >= 0 {
		s += fmt.Sprintf(" at rank %d", e.Rank)
	}
	if e.Where != "" {
		s += " (" + e.Where + ")"
	}
	s += ": " + e.Class.Error()
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the class and the wrapped error.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Class}
	}
	return []error{e.Class, e.Err}
}

// classify returns the class of an error of a lower layer.
func classify(err error) Class {
	var mpiErr *Error
	var mismatch *callMismatch
	switch {
	case errors.As(err, &mpiErr):
		return mpiErr.Class
	case errors.As(err, &mismatch):
		return mismatch.class()
	case errors.Is(err, attrs.ErrKeyval):
		return ErrKeyval
	case errors.Is(err, proto.ErrAnySource):
		return ErrRank
	case errors.Is(err, proto.ErrAnyTag):
		return ErrTag
	case errors.Is(err, proto.ErrType):
		return ErrType
	case errors.Is(err, proto.ErrTruncate):
		return ErrTruncate
	case errors.Is(err, proto.ErrContextEnded):
		return ErrComm
	case errors.Is(err, proto.ErrStale), errors.Is(err, proto.ErrState):
		return ErrRequest
	case errors.Is(err, proto.ErrNoBuffer):
		return ErrBuffer
	case errors.Is(err, proto.ErrFailed):
		return ErrProcFailed
	}
	return ErrOther
}

// newError returns the error of a call that belongs to no process, so Config.Fatal does not apply to it.
func newError(op string, class Class, err error) error {
	return &Error{Class: class, Op: op, Rank: -1, Err: err, Where: callPosition()}
}

// raise returns the error of a call of this process. With Config.Fatal it aborts the job instead.
func (p *Process) raise(e *Error) error {
	if p.check {
		e.setWhere()
	}
	if p.fatal {
		_ = p.boot.Abort(1, e.Error())
	}
	return e
}

// newError returns the error of a call that belongs to no communicator.
func (p *Process) newError(op string, class Class, err error) error {
	return p.raise(&Error{Class: class, Op: op, Rank: p.boot.Rank, Err: err})
}

// wrapError wraps an error of a lower layer; nil stays nil.
func (p *Process) wrapError(op string, err error) error {
	if err == nil {
		return nil
	}
	return p.newError(op, classify(err), err)
}
