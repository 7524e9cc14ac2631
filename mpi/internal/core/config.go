package core

import "github.com/ibrun/ibrun/mpi/internal/bootstrap"

// Config changes how a process initialises. Unless it says otherwise, its fields are those of
// mpi.Config.
type Config struct {
	Fatal, Check    bool
	UnexpectedBytes int
	PinnedBytes     int
	Thresholds      bootstrap.Thresholds
	// ClassOf returns the class of an error, and false for one that is not of the front end. The
	// class becomes that of a call in which a callback has returned the error. It does not unwrap
	// the error. nil: the front end has no errors of its own.
	ClassOf func(error) (Class, bool)
}
