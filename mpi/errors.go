package mpi

import (
	"errors"
	"fmt"

	"github.com/ibrun/ibrun/attrs"
	"github.com/ibrun/ibrun/mpi/internal/proto"
)

// Class is an error class. It is an error itself, so errors.Is(err, mpi.ErrTruncate) asks for it. MPI-5.0 §9.4.
type Class int32

// The error classes in use, with the numbers of the MPI-5.0 ABI (§20.3); ErrProcFailed has none there yet.
const (
	ErrBuffer     Class = 1   // buffers overlap, are too small, or none is attached
	ErrCount      Class = 2   // a count is negative, or does not fit the buffer
	ErrTag        Class = 4   // a tag is negative, or AnyTag where that was asserted not to be used
	ErrComm       Class = 5   // the communicator is nil or freed
	ErrRank       Class = 6   // a rank is not in the communicator, or AnySource where that was asserted not to be used
	ErrRequest    Class = 7   // the request has been completed or freed before, or is in the wrong state
	ErrRoot       Class = 8   // a root is not in the communicator
	ErrGroup      Class = 9   // the group is nil, is of another session, or lacks this process
	ErrOp         Class = 10  // the operation is not defined on the element type
	ErrTopology   Class = 11  // the communicator has no graph
	ErrArg        Class = 13  // some other argument is wrong
	ErrTruncate   Class = 15  // the message was longer than the buffer, which holds its first part
	ErrOther      Class = 16  // something outside: the wrapped error tells
	ErrInStatus   Class = 19  // some requests of several failed: the wrapped error is the first
	ErrInfoKey    Class = 31  // an info key is empty or too long
	ErrInfoNoKey  Class = 32  // an info key is not there
	ErrInfoValue  Class = 33  // an info value is too long
	ErrInfo       Class = 34  // the info is nil
	ErrKeyval     Class = 36  // the key is none, has been freed, or is of another process
	ErrNoMem      Class = 39  // memory is exhausted, or cannot be pinned for a device
	ErrSession    Class = 60  // the session is nil or closed
	ErrProcFailed Class = 101 // a process was lost
)

var classText = map[Class]string{
	ErrBuffer: "invalid buffer", ErrCount: "invalid count", ErrTag: "invalid tag", ErrComm: "invalid communicator",
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

// Error is what calls of this package return. It answers errors.Is for Class and for the error it wraps.
type Error struct {
	// Class is the error class.
	Class Class
	// Op is the call, such as "Recv".
	Op string
	// Rank is that of the calling process in the communicator concerned, -1 where there is none.
	Rank int
	// Err tells more; it may be nil.
	Err error
}

// Error says what failed, where and why.
func (e *Error) Error() string {
	s := "mpi: " + e.Op
	if e.Rank >= 0 {
		s += fmt.Sprintf(" at rank %d", e.Rank)
	}
	s += ": " + e.Class.Error()
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap gives the class and the wrapped error.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Class}
	}
	return []error{e.Class, e.Err}
}

// classify finds the class of an error from below.
func classify(err error) Class {
	var told *Error
	switch {
	case errors.As(err, &told):
		return told.Class
	case errors.Is(err, attrs.ErrKeyval):
		return ErrKeyval
	case errors.Is(err, proto.ErrAnySource):
		return ErrRank
	case errors.Is(err, proto.ErrAnyTag):
		return ErrTag
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

// newError makes an error of a call that no process can be told of.
func newError(op string, class Class, err error) error { return &Error{class, op, -1, err} }

// raise returns an error of a call of this process, or ends the job with it if that is asked for.
func (p *Process) raise(e *Error) error {
	if p.fatal {
		_ = p.boot.Abort(1, e.Error())
	}
	return e
}
