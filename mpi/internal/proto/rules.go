package proto

import (
	"cmp"
	"fmt"

	"github.com/ibrun/ibrun/fabric"
)

// Protocol is how a message travels. See the package comment.
type Protocol uint8

// The forms, the one for the shortest messages first.
const (
	// Eager is at once, in one message of the transport.
	Eager Protocol = iota
	// Fragmented is at once, in several messages of the transport.
	Fragmented
	// RendezvousRead is announced, and read by the receiver from the sender's memory.
	RendezvousRead
	// RendezvousShared is announced, and copied by both sides, each from its end.
	RendezvousShared
	// RendezvousCopy is announced, and sent in several messages of the transport once the receiver has asked for it.
	RendezvousCopy
)

// Thresholds are the lengths, in bytes, that decide how messages travel over one transport.
type Thresholds struct {
	// MaxEager is the largest payload of one message.
	MaxEager int
	// FragmentSize is what each message carries of a payload that goes in parts.
	FragmentSize int
	// MaxData is what each message carries of a payload that was announced and is copied.
	MaxData int
	// CanRead tells whether receivers read what was announced.
	CanRead bool
}

// ThresholdsOf derives the rules from what a transport can do. It fails for one that cannot carry a header.
func ThresholdsOf(c fabric.Caps) (Thresholds, error) {
	room := c.MaxSend - maxHeader
	if room <= 0 {
		return Thresholds{}, fmt.Errorf("a transport that carries %d bytes at once has no room for a header", c.MaxSend)
	}
	eager := min(c.Eager, room)
	return Thresholds{MaxEager: eager, FragmentSize: min(eager, cmp.Or(c.Fragment, eager)), MaxData: room, CanRead: c.Read}, nil
}

// Choose tells how a message of n bytes begins its way to a peer that takes messages in, in the standard mode, which does not
// wait for the receive. stream is the endpoint's Stream, and paired tells whether the two share words (fabric.CooperativeCopier).
func (r *Thresholds) Choose(n, stream int, paired bool) Protocol {
	switch {
	case n <= r.MaxEager:
		return Eager
	case n <= r.EagerLimit(stream):
		return Fragmented
	case !r.CanRead:
		return RendezvousCopy
	case paired && n >= shareFrom:
		return RendezvousShared
	}
	return RendezvousRead
}

// EagerLimit is the longest message that is not announced.
func (r *Thresholds) EagerLimit(stream int) int {
	if r.FragmentSize == 0 {
		return 0
	}
	return max(r.MaxEager, min(stream, maxLong))
}

// FragmentCount is how many messages of the transport carry a payload of n bytes, or how many pieces the two
// sides share; a single
// read is one.
func (r *Thresholds) FragmentCount(f Protocol, n int) int {
	switch f {
	case Fragmented:
		return (n + r.FragmentSize - 1) / r.FragmentSize
	case RendezvousShared:
		return pieces(n)
	case RendezvousCopy:
		return (n + r.MaxData - 1) / r.MaxData
	}
	return 1
}

// Lengths in bytes that are the same over all transports.
const (
	// HeaderBytes stand before the payload of a message that goes at once in the standard mode.
	HeaderBytes = envelopeBytes
	// MinShared is the length from which both sides copy an announced message, where they can.
	MinShared = shareFrom
)
