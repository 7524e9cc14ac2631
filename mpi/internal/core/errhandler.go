package core

import (
	"fmt"
	"sync/atomic"
)

// ErrorHandler is what happens when a call fails. The zero value is ErrorsReturn. Handlers can be
// compared.
type ErrorHandler struct {
	kind handlerKind
	f    *HandlerFunc
}

// HandlerFunc is a handler of the program. It gets the error of a call before the call returns, and
// the call returns the result. c is nil if the call has no communicator.
type HandlerFunc func(c *Comm, err *Error) error

type handlerKind uint8

const (
	handlerReturn handlerKind = iota
	handlerFatal
	handlerAbort
	handlerFunc
)

// ErrorsReturn returns errors.
func ErrorsReturn() ErrorHandler { return ErrorHandler{} }

// ErrorsAreFatal ends the job.
func ErrorsAreFatal() ErrorHandler { return ErrorHandler{kind: handlerFatal} }

// ErrorsAbort ends the processes of the communicator, which ends the job.
func ErrorsAbort() ErrorHandler { return ErrorHandler{kind: handlerAbort} }

// NewErrorHandler returns a handler that calls f. It is equal only to itself.
func NewErrorHandler(f HandlerFunc) ErrorHandler { return ErrorHandler{handlerFunc, &f} }

// HandlerOf is the handler of a communicator, a session or a process. The methods of nil do
// nothing.
type HandlerOf struct{ v atomic.Pointer[ErrorHandler] }

// Set sets the handler.
func (o *HandlerOf) Set(h ErrorHandler) {
	if o != nil {
		o.v.Store(&h)
	}
}

// Get returns the handler: ErrorsReturn unless another has been set.
func (o *HandlerOf) Get() (h ErrorHandler) {
	if o != nil {
		if set := o.v.Load(); set != nil {
			h = *set
		}
	}
	return h
}

// Handler returns the handler of the communicator; nil if it cannot be used.
func (c *Comm) Handler() *HandlerOf {
	if c == nil || c.state.Load() != commReady {
		return nil
	}
	return &c.handler
}

// Handler returns the handler of the session; nil if it cannot be used.
func (s *Session) Handler() *HandlerOf {
	if s == nil || s.closed.Load() {
		return nil
	}
	return &s.handler
}

// SetErrorHandler sets the handler of the process and, in the World Model, that of Self.
func (p *Process) SetErrorHandler(h ErrorHandler) {
	if p.IsNone() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.handler.Set(h)
	if p.self != nil {
		p.self.handler.Set(h)
	}
}

// ErrorHandler returns the handler of errors that belong to no communicator and no session.
func (p *Process) ErrorHandler() ErrorHandler {
	if p.IsNone() {
		return ErrorHandler{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if h := p.self.Handler(); h != nil {
		return h.Get()
	}
	return p.handler.Get()
}

// origin is where an error occurred: its handler is called. The zero origin is a call that has no
// process.
type origin struct {
	proc    *Process
	session *Session
	comm    *Comm
}

// handler returns the handler of the origin.
func (o *origin) handler() ErrorHandler {
	// A communicator that is no longer valid has no handler; then that of the process is called.
	if h := o.comm.Handler(); h != nil {
		return h.Get()
	}
	if h := o.session.Handler(); h != nil {
		return h.Get()
	}
	return o.proc.ErrorHandler()
}

// Handle calls the handler of the communicator, the session or the process in which an error
// occurred, and returns what the call returns. A front end calls it once for every call that fails.
func Handle(err error) error {
	first := findOrigin(err)
	if first == nil {
		return err
	}
	at := first.at
	h := at.handler()
	if h.kind == handlerReturn {
		return err
	}
	e, ok := err.(*Error)
	if !ok { // several errors
		e = &Error{Class: first.Class, Op: first.Op, Rank: first.Rank, Err: err}
	}
	if h.kind == handlerFunc {
		// The handler may call methods of the communicator, so it gets none that cannot be used.
		comm := at.comm
		if comm != nil && comm.state.Load() != commReady {
			comm = nil
		}
		return h.call(comm, e)
	}
	// It does not return, except in tests, where the caller gets the error.
	_ = at.proc.boot.Abort(1, e.Error())
	return err
}

// findOrigin returns the first error of a tree that has an origin; nil if none has.
func findOrigin(err error) *Error {
	switch e := err.(type) {
	case *Error:
		if e.at.proc != nil {
			return e
		}
		return findOrigin(e.Err)
	case *RequestError:
		return findOrigin(e.Err)
	case ErrorList:
		for _, err := range e {
			if found := findOrigin(err); found != nil {
				return found
			}
		}
	}
	return nil
}

// call calls a handler of the program. Its panic is an error, beside that for which it was called.
func (h ErrorHandler) call(c *Comm, e *Error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &Error{Class: ErrOther, Op: e.Op, Rank: e.Rank, Where: e.Where,
				Err: ErrorList{fmt.Errorf("the error handler panicked: %v", v), e}}
		}
	}()
	return (*h.f)(c, e)
}
