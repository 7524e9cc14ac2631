package mpi

import "github.com/ibrun/ibrun/mpi/internal/core"

// ErrLastCode is the greatest number that the standard reserves for error classes and codes. MPI-5.0 §9.4.
const ErrLastCode Class = core.ErrLastCode

// MaxErrorString is the maximum length of an error text in bytes. C's constant also counts the final NUL. MPI-5.0
// §9.3.
const MaxErrorString = core.MaxErrorString

// AddErrorClass creates an error class of this process; its number is also an error code. It is local. Any goroutine
// may call it, and the other functions for error codes. MPI-5.0 §9.5.
func (p *Process) AddErrorClass() Class { return Class(p.core().ErrorCodes().AddClass()) }

// AddErrorCode creates an error code in a class. MPI-5.0 §9.5.
func (p *Process) AddErrorCode(class Class) (Class, error) {
	x, err := p.core().AddErrorCode(core.Class(class))
	return Class(x), public(err)
}

// AddErrorString sets the text of an added class or code, at most MaxErrorString bytes. MPI-5.0 §9.5.
func (p *Process) AddErrorString(n Class, text string) error {
	return result(p.core(), "AddErrorString", p.core().ErrorCodes().SetText(core.Class(n), text))
}

// ErrorClass returns the class of an error code; for a class, the class itself. MPI-5.0 §9.4.
func (p *Process) ErrorClass(n Class) (Class, error) {
	x, err := p.core().ErrorCodes().ClassOf(core.Class(n))
	return Class(x), result(p.core(), "ErrorClass", err)
}

// ErrorString returns the text of an error class or code. It is empty for an added one without a text. MPI-5.0 §9.4.
func (p *Process) ErrorString(n Class) (string, error) {
	s, err := p.core().ErrorCodes().Text(core.Class(n))
	return s, result(p.core(), "ErrorString", err)
}
