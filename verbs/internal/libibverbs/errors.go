package libibverbs

import (
	"errors"
	"fmt"
	"syscall"
)

// MissingError says what is not installed, and what to install. It is [errors.ErrUnsupported].
type MissingError struct {
	What string // such as "libibverbs.so.1"
	Need string // such as "the packages libibverbs1 and ibverbs-providers"
	Err  error  // what the loader said, or nil
}

// Error says what is missing, and then what is needed.
func (e *MissingError) Error() string {
	s := fmt.Sprintf("%s is missing: needs %s", e.What, e.Need)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap gives [errors.ErrUnsupported] and Err.
func (e *MissingError) Unwrap() []error {
	if e.Err == nil {
		return []error{errors.ErrUnsupported}
	}
	return []error{errors.ErrUnsupported, e.Err}
}

// PostError is returned by Ring when the device refused requests that Post had gathered, which happens after an error of the
// queue pair or of the device. Of all that was posted the last requests are lost: they do not complete. (A single request that
// the device refuses is an error of Post, as far as it can be known there.)
type PostError struct {
	Errno syscall.Errno
	Lost  int // number of requests, may be 0
}

// Error says why requests are lost, and how many.
func (e *PostError) Error() string {
	return fmt.Sprintf("ibv_post_send: %v: %d requests were not queued", e.Errno, e.Lost)
}

// Unwrap gives Errno.
func (e *PostError) Unwrap() error { return e.Errno }

// Dropped is Lost, for callers that cannot name the type.
func (e *PostError) Dropped() int { return e.Lost }
