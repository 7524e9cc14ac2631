package libibverbs

import (
	"fmt"
	"syscall"

	"github.com/ibrun/ibrun/internal/dlopen"
)

// MissingError reports what is not installed, and what to install. It wraps [errors.ErrUnsupported].
type MissingError = dlopen.MissingError

// PostError is returned by Ring if the device has refused requests that Post had stored. That happens after an error of the queue
// pair or of the device. The last of the posted requests are lost: they do not complete. (Post returns the error of a single
// request if it submits it.)
type PostError struct {
	Errno syscall.Errno
	Lost  int // number of requests, may be 0
}

// Error returns why requests are lost, and how many.
func (e *PostError) Error() string {
	return fmt.Sprintf("ibv_post_send: %v: %d requests were not queued", e.Errno, e.Lost)
}

// Unwrap returns Errno.
func (e *PostError) Unwrap() error { return e.Errno }

// Dropped returns Lost, for callers that do not import this package.
func (e *PostError) Dropped() int { return e.Lost }
