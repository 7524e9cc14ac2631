package mpi

import "github.com/ibrun/ibrun/mpi/internal/proto"

// Status tells about a message that was received or found. MPI-5.0 §3.2.5.
type Status struct {
	// Source is the rank of the sender, AnySource where there was no message, or ProcNull.
	Source int
	// Tag is the message's tag, AnyTag where there was none.
	Tag       int
	bytes     int
	cancelled bool
}

// Bytes is the length of the message, or of the part of it that was received. MPI-5.0 §3.2.5.
func (s Status) Bytes() int { return s.bytes }

// Cancelled tells whether the receive was cancelled. MPI-5.0 §3.8.4.
func (s Status) Cancelled() bool { return s.cancelled }

// Count is the number of elements of type T that came; Undefined if it is not whole. MPI-5.0 §3.2.5.
func Count[T Elem](s Status) int {
	n := sizeOf[T]()
	if s.bytes%n != 0 {
		return Undefined
	}
	return s.bytes / n
}

// emptyStatus is the status where there is nothing to tell.
var emptyStatus = Status{Source: AnySource, Tag: AnyTag}

func statusOf(s proto.Status) Status {
	return Status{Source: int(s.Source), Tag: int(s.Tag), bytes: s.Bytes, cancelled: s.Cancelled}
}
