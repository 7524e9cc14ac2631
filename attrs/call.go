package attrs

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// maxCalls limits how many callbacks of a Space may run at the same time, nested or not, how many attributes
// callbacks may add while all attributes of an owner are deleted, and how many values a Set may replace.
const maxCalls = 1000

// ErrEndless is the error of callbacks that call each other without end, or set attributes without end while these
// are deleted.
var ErrEndless = errors.New("attribute callbacks do not end: the limit of 1000 running or added ones is reached")

// PanicError is the error of a callback that panicked. errors.Is matches the value of the panic if that is an error.
type PanicError struct {
	// Value is the argument of panic.
	Value any
	// Stack is the stack of the goroutine, as debug.Stack returns it.
	Stack []byte
}

// Error returns the value without the stack.
func (e *PanicError) Error() string {
	return fmt.Sprintf("panic in a callback: %v", e.Value)
}

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// call runs a callback. The caller must hold no lock.
func (s *Space[O]) call(f func() error) (err error) {
	defer s.running.Add(-1)
	if s.running.Add(1) > maxCalls {
		return ErrEndless
	}
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{v, debug.Stack()}
		}
	}()
	return f()
}
