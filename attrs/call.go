package attrs

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// maxCalls bounds how many callbacks of a Space may be under way at once, nested or not, and how many attributes
// callbacks may add while all of an owner's are deleted.
const maxCalls = 1000

// ErrEndless says that callbacks call each other, or set attributes while these are deleted, without end in sight.
var ErrEndless = errors.New("attribute callbacks go on without end: 1000 are under way or were added")

// PanicError is the error of a callback that panicked. It answers errors.Is for the value if that is an error.
type PanicError struct {
	// Value is what the callback panicked with.
	Value any
	// Stack is that of the goroutine, as debug.Stack gives it.
	Stack []byte
}

// Error tells the value and not the stack.
func (e *PanicError) Error() string {
	return fmt.Sprintf("panic in an attribute callback: %v", e.Value)
}

// Unwrap gives the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// call runs a callback. No lock is held.
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
