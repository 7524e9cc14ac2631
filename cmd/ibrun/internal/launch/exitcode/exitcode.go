package exitcode

import (
	"errors"
	"fmt"
)

// The exit codes of ibrun itself. A job that ran and failed has the code of the rank that failed first.
const (
	Failed        = 1 // the ranks could not be connected, or ibrun itself failed
	UsageError    = 2
	TimedOut      = 124
	NotExecutable = 126
	NotFound      = 127
	SignalBase    = 128 // plus the signal number
)

// codedError is an error with an exit code.
type codedError struct {
	code int
	err  error
}

func (e *codedError) Error() string { return e.err.Error() }

func (e *codedError) Unwrap() error { return e.err }

// Of returns the exit code that an error carries, or [Failed] if it carries none.
func Of(err error) int {
	var exit *codedError
	if errors.As(err, &exit) {
		return exit.code
	}
	return Failed
}

// IsSignal reports whether the exit code that an error carries is that of a signal: a user has
// interrupted ibrun, or the system has asked it to end.
func IsSignal(err error) bool { return Of(err) > SignalBase }

// Errorf returns an error that carries an exit code. The text is formatted as by [fmt.Errorf].
func Errorf(code int, format string, args ...any) error {
	return &codedError{code, fmt.Errorf(format, args...)}
}
