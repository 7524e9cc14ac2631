package exitcode

import (
	"errors"
	"fmt"
)

// Exit codes of ibrun itself. A job that ran and failed has the code of the rank that failed first.
const (
	Failed        = 1 // wire-up, or ibrun itself
	UsageError    = 2
	TimedOut      = 124
	NotExecutable = 126
	NotFound      = 127
	SignalBase    = 128 // plus the number of the signal
)

// codedError is an error with the exit code it means.
type codedError struct {
	code int
	err  error
}

func (e *codedError) Error() string { return e.err.Error() }

func (e *codedError) Unwrap() error { return e.err }

// Of returns the exit code that an error means.
func Of(err error) int {
	var exit *codedError
	if errors.As(err, &exit) {
		return exit.code
	}
	return Failed
}

// Errorf returns an error that carries an exit code. The text is formatted as by [fmt.Errorf].
func Errorf(code int, format string, args ...any) error {
	return &codedError{code, fmt.Errorf(format, args...)}
}
