package mpi

import "github.com/ibrun/ibrun/mpi/internal/core"

// Status describes a message that was received or probed. MPI-5.0 §3.2.5.
type Status struct {
	// Source is the rank of the sender, AnySource if there was no message, or ProcNull.
	Source int
	// Tag is the message's tag; AnyTag if there was no message.
	Tag       int
	bytes     int
	cancelled bool
}

// statusOf returns the status of a call of core.
func statusOf(st core.Status) Status { return Status{st.Source, st.Tag, st.Bytes, st.Cancelled} }

// status returns the results of a call of core.
func status(st core.Status, err error) (Status, error) { return statusOf(st), public(err) }

// Bytes returns the number of bytes received, or the length of a probed message. MPI-5.0 §3.2.5.
func (s Status) Bytes() int { return s.bytes }

// Cancelled reports whether the receive was cancelled. MPI-5.0 §3.8.4.
func (s Status) Cancelled() bool { return s.cancelled }

// Count returns the number of received elements of type T; Undefined if the message is not a whole number of them, or T is no
// type of elements. MPI-5.0 §3.2.5.
func Count[T any](s Status) int {
	n := messageSize[T]()
	switch {
	case n < 0 || n == 0 && s.bytes != 0:
		return Undefined
	case n == 0:
		return 0
	case s.bytes%n != 0:
		return Undefined
	}
	return s.bytes / n
}
