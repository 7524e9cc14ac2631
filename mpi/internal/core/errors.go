package core

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ibrun/ibrun/attrs"
	"github.com/ibrun/ibrun/mpi/internal/core/internal/checking"
	"github.com/ibrun/ibrun/mpi/internal/notes"
	"github.com/ibrun/ibrun/mpi/internal/proto"
)

// Error is the error of a call. Its fields are those of mpi.Error.
type Error struct {
	Class Class
	Op    string
	Rank  int
	Err   error
	Where string

	at origin // whose error handler Handle calls
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

// RequestError is the error of one of several requests.
type RequestError struct {
	// Index is the index of the request.
	Index int
	Err   error
}

// Error returns the index and the error of the request.
func (e *RequestError) Error() string { return fmt.Sprintf("request %d: %v", e.Index, e.Err) }

// Unwrap returns the error of the request.
func (e *RequestError) Unwrap() error { return e.Err }

// ErrorList is a list of errors, as from [errors.Join], whose elements a front end can convert.
// None of them is nil.
type ErrorList []error

// Error returns the errors, one per line.
func (e ErrorList) Error() string { return errors.Join(e...).Error() }

// Unwrap returns the errors.
func (e ErrorList) Unwrap() []error { return e }

// join returns the errors that are not nil as one; nil if all are nil.
func join(errs ...error) error {
	errs = slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	return ErrorList(errs)
}

// fault is an error whose class is known where the call is not. The error of the call, which
// wrapError makes, has the class and the cause.
type fault struct {
	class Class
	error
}

// Unwrap returns the cause.
func (f fault) Unwrap() error { return f.error }

// WithClass returns err with a class, for the CallResult of the object of the call.
func WithClass(class Class, err error) error { return fault{class, err} }

func faultf(class Class, format string, args ...any) error {
	return fault{class, fmt.Errorf(format, args...)}
}

// findClass returns the class of the first error in a tree of errors that has one: an error of this
// package or of the front end.
func (p *Process) findClass(err error) (Class, bool) {
	// From the outside in: an outer error was made by a caller that knew more about the call.
	switch e := err.(type) {
	case *Error:
		return e.Class, true
	case fault:
		return e.class, true
	}
	if p.classOf != nil {
		if class, ok := p.classOf(err); ok {
			return class, true
		}
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return p.findClass(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			if class, ok := p.findClass(err); ok {
				return class, true
			}
		}
	}
	return 0, false
}

// classify returns the class of an error of a lower layer or of a callback.
func (p *Process) classify(err error) Class {
	if class, ok := p.findClass(err); ok {
		return class
	}
	// The class follows from the two calls, so it is in no table.
	if mismatch, ok := errors.AsType[*checking.Mismatch](err); ok {
		return Class(differenceClasses[mismatch.Difference()])
	}
	for _, known := range [...]struct {
		err   error
		class Class
	}{
		{attrs.ErrKeyval, ErrKeyval}, {proto.ErrAnySource, ErrRank}, {proto.ErrAnyTag, ErrTag}, {notes.ErrType, ErrType},
		{proto.ErrTruncate, ErrTruncate}, {proto.ErrFreed, ErrComm}, {proto.ErrStale, ErrRequest}, {proto.ErrState, ErrRequest},
		{proto.ErrNoBuffer, ErrBuffer}, {proto.ErrFailed, ErrProcFailed},
	} {
		if errors.Is(err, known.err) {
			return known.class
		}
	}
	return ErrOther
}

// newError returns the error of a call that belongs to no process, so no error handler is called
// for it.
func newError(op string, class Class, err error) error {
	return &Error{Class: class, Op: op, Rank: -1, Err: err, Where: callPosition()}
}

// raise returns the error of a call of this process, for which Handle calls a handler.
func (p *Process) raise(e *Error) error {
	// To find the position costs a walk of the stack. Errors of a process may be frequent, so only
	// checked programs pay for it.
	if p.check {
		e.setWhere()
	}
	switch x := e.Err.(type) {
	case *proto.OperationError: // requestError has used its context
		e.Err = x.Err
	case fault: // its class is that of e
		e.Err = x.error
	}
	e.at.proc = p
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
	return p.newError(op, p.classify(err), err)
}
