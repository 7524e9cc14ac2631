package mpi

import (
	"errors"

	"github.com/ibrun/ibrun/mpi/internal/core"
)

// ErrorHandler is what happens when a call fails: ErrorsReturn, which is the zero value and the default, ErrorsAreFatal,
// ErrorsAbort, or a function of the program (NewErrorHandler). Communicators, sessions and the process have one each. New
// communicators get the handler of the one from which they are made, or of the session if they are made from a group; World, Self
// and sessions get that of the process. Handlers can be compared, and need not be freed. MPI-5.0 §9.3.
type ErrorHandler struct{ h core.ErrorHandler }

// The predefined handlers. MPI-5.0 §9.3.
var (
	// ErrorsReturn returns the error.
	ErrorsReturn = ErrorHandler{core.ErrorsReturn()}
	// ErrorsAreFatal ends the job.
	ErrorsAreFatal = ErrorHandler{core.ErrorsAreFatal()}
	// ErrorsAbort ends the processes of the communicator. Since a launcher ends the rest of a job with them, this ends the job.
	ErrorsAbort = ErrorHandler{core.ErrorsAbort()}
)

// NewErrorHandler returns a handler that calls f when a call fails. The call returns what f returns: err itself, another error,
// or nil. c is nil if the error belongs to a session or to the process. f may call any function; an error of these calls the
// handler again. A panic of f is an error of class ErrOther, which wraps err. MPI-5.0 §9.3.1.
func NewErrorHandler(f func(c *Comm, err *Error) error) ErrorHandler {
	return ErrorHandler{core.NewErrorHandler(func(c *core.Comm, err *core.Error) error {
		e, _ := convert(err).(*Error)
		return f((*Comm)(c), e)
	})}
}

// SetErrorHandler sets the handler of the communicator at this process. It is called also when a call on requests, such as Wait,
// returns the error of an operation on the communicator; if several fail, for the first. A wrong use of a request has no
// communicator. It is local. MPI-5.0 §9.3.1.
func (c *Comm) SetErrorHandler(h ErrorHandler) error {
	c.core().Handler().Set(h.h)
	return result(c.core(), "SetErrorHandler", nil)
}

// ErrorHandler returns the handler of the communicator. It is local. MPI-5.0 §9.3.1.
func (c *Comm) ErrorHandler() (ErrorHandler, error) {
	return ErrorHandler{c.core().Handler().Get()}, result(c.core(), "ErrorHandler", nil)
}

// CallErrorHandler calls the handler of the communicator for an error of the program, which has the class of err, or ErrOther. It
// returns what the handler returns. For nil it does nothing. MPI-5.0 §9.3.4.
func (c *Comm) CallErrorHandler(err error) error {
	if err == nil {
		return nil
	}
	return result(c.core(), "CallErrorHandler", core.WithClass(classOrOther(err), err))
}

// classOrOther returns the class of an error of the program.
func classOrOther(err error) core.Class {
	if e, ok := errors.AsType[*Error](err); ok {
		return core.Class(e.Class)
	}
	return core.ErrOther
}

// SetErrorHandler sets the handler of the session, which communicators made from its groups get. It is local. MPI-5.0 §9.3.2.
func (s *Session) SetErrorHandler(h ErrorHandler) error {
	s.core().Handler().Set(h.h)
	return result(s.core(), "Session.SetErrorHandler", nil)
}

// ErrorHandler returns the handler of the session. It is local. MPI-5.0 §9.3.2.
func (s *Session) ErrorHandler() (ErrorHandler, error) {
	return ErrorHandler{s.core().Handler().Get()}, result(s.core(), "Session.ErrorHandler", nil)
}

// CallErrorHandler is Comm.CallErrorHandler for the handler of the session. MPI-5.0 §9.3.4.
func (s *Session) CallErrorHandler(err error) error {
	if err == nil {
		return nil
	}
	return result(s.core(), "Session.CallErrorHandler", core.WithClass(classOrOther(err), err))
}

// SetErrorHandler sets the handler for errors that belong to no communicator and no session. While the World Model is open that
// is the handler of Self, which it sets as well. World keeps its handler. MPI-5.0 §9.3.
func (p *Process) SetErrorHandler(h ErrorHandler) { p.core().SetErrorHandler(h.h) }

// ErrorHandler returns the handler for errors that belong to no communicator and no session. MPI-5.0 §9.3.
func (p *Process) ErrorHandler() ErrorHandler { return ErrorHandler{p.core().ErrorHandler()} }
