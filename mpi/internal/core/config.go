package core

import "github.com/ibrun/ibrun/mpi/internal/bootstrap"

// Config changes how a process initialises. Its fields are those of the Config of package mpi.
type Config struct {
	Fatal, Check    bool
	UnexpectedBytes int
	PinnedBytes     int
	Thresholds      bootstrap.Thresholds
}
