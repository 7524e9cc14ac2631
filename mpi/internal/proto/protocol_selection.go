package proto

import (
	"cmp"
	"fmt"

	"github.com/ibrun/ibrun/fabric"
)

// Protocol is how the payload of a message is transferred. See the package comment.
type Protocol uint8

// The protocols, in ascending order of the message lengths they are for.
const (
	// Eager sends the payload immediately, in one message of the transport.
	Eager Protocol = iota
	// Fragmented sends the payload immediately, in several messages of the transport.
	Fragmented
	// RendezvousRead sends an RTS. The receiver reads the payload from the sender's memory.
	RendezvousRead
	// RendezvousShared sends an RTS. Both sides copy the payload, each from its end.
	RendezvousShared
	// RendezvousCopy sends an RTS. When the receiver asks for the payload it is sent in several messages of the transport.
	RendezvousCopy
)

// Thresholds are the lengths, in bytes, that decide which protocol a message takes over one transport.
type Thresholds struct {
	// MaxEager is the largest payload of one eager message.
	MaxEager int
	// FragmentSize is the payload of each message of the Fragmented protocol.
	FragmentSize int
	// MaxData is the payload of each message of the RendezvousCopy protocol.
	MaxData int
	// CanRead reports whether a receiver can read the sender's memory.
	CanRead bool
}

// ThresholdsOf derives the thresholds from the capabilities of a transport. It fails if the transport cannot carry a header.
func ThresholdsOf(c fabric.Caps) (Thresholds, error) {
	room := c.MaxSend - maxHeader
	if room <= 0 {
		return Thresholds{}, fmt.Errorf("the transport carries messages of at most %d bytes: too short for a header of %d bytes",
			c.MaxSend, maxHeader)
	}
	eager := min(c.Eager, room)
	return Thresholds{MaxEager: eager, FragmentSize: min(eager, cmp.Or(c.Fragment, eager)), MaxData: room, CanRead: c.Read}, nil
}

// Choose returns the protocol of a standard-mode send of n bytes to a peer that has not paused this sender. stream is the
// endpoint's Stream; paired reports whether the two processes share words (fabric.CooperativeCopier).
func (x *Thresholds) Choose(n, stream int, paired bool) Protocol {
	switch {
	case n <= x.MaxEager:
		return Eager
	case n <= x.EagerLimit(stream):
		return Fragmented
	case !x.CanRead:
		return RendezvousCopy
	case paired && n >= MinShared:
		return RendezvousShared
	}
	return RendezvousRead
}

// EagerLimit returns the length of the longest message that is sent without a rendezvous.
func (x *Thresholds) EagerLimit(stream int) int {
	if x.FragmentSize == 0 {
		return 0
	}
	return max(x.MaxEager, min(stream, maxFragmented))
}

// FragmentCount returns how many messages of the transport carry a payload of n bytes, or into how many pieces the two sides
// divide it. It returns 1 for a single read.
func (x *Thresholds) FragmentCount(p Protocol, n int) int {
	switch p {
	case Fragmented:
		return (n + x.FragmentSize - 1) / x.FragmentSize
	case RendezvousShared:
		return pieceCount(n)
	case RendezvousCopy:
		return (n + x.MaxData - 1) / x.MaxData
	}
	return 1
}

// Lengths in bytes that are the same for all transports.
const (
	// HeaderBytes is the length of the header of an eager standard-mode message.
	HeaderBytes = envelopeBytes
	// MinShared is the length from which both sides copy a message, where they can.
	MinShared = 4 << 10
)
