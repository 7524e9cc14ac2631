package core

import "github.com/ibrun/ibrun/mpi/internal/proto"

// Status describes a message that was received or probed.
type Status struct {
	// Source is the rank of the sender, AnySource if there was no message, or ProcNull.
	Source int
	// Tag is the message's tag; AnyTag if there was no message.
	Tag int
	// Bytes is the number of bytes received, or the length of a probed message.
	Bytes int
	// Cancelled reports whether the receive was cancelled.
	Cancelled bool
}

// emptyStatus is the status of a call that received no message.
var emptyStatus = Status{Source: AnySource, Tag: AnyTag}

// cancelledStatus is the status of a receive that was cancelled.
var cancelledStatus = Status{Source: AnySource, Tag: AnyTag, Cancelled: true}

func statusOf(s proto.Status) Status {
	return Status{Source: int(s.Source), Tag: int(s.Tag), Bytes: s.Bytes, Cancelled: s.Cancelled}
}

// EmptyStatus returns the status of a call that received no message.
func EmptyStatus() Status { return emptyStatus }
