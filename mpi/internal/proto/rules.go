package proto

import (
	"cmp"
	"fmt"

	"github.com/ibrun/ibrun/fabric"
)

// Form is how a message travels. See the package comment.
type Form uint8

// The forms, the one for the shortest messages first.
const (
	// Eager is at once, in one message of the transport.
	Eager Form = iota
	// Parts is at once, in several messages of the transport.
	Parts
	// Read is announced, and read by the receiver from the sender's memory.
	Read
	// Shared is announced, and copied by both sides, each from its end.
	Shared
	// Copied is announced, and sent in several messages of the transport once the receiver has asked for it.
	Copied
)

// Rules are the lengths, in bytes, that decide how messages travel over one transport.
type Rules struct {
	// Eager is the largest payload of one message.
	Eager int
	// Part is what each message carries of a payload that goes in parts.
	Part int
	// Data is what each message carries of a payload that was announced and is copied.
	Data int
	// Reads tells whether receivers read what was announced.
	Reads bool
}

// RulesOf derives the rules from what a transport can do. It fails for one that cannot carry a header.
func RulesOf(c fabric.Caps) (Rules, error) {
	room := c.MaxSend - maxHeader
	if room <= 0 {
		return Rules{}, fmt.Errorf("a transport that carries %d bytes at once has no room for a header", c.MaxSend)
	}
	eager := min(c.Eager, room)
	return Rules{Eager: eager, Part: min(eager, cmp.Or(c.Part, eager)), Data: room, Reads: c.Read}, nil
}

// Form tells how a message of n bytes begins its way to a peer that takes messages in, in the standard mode, which does not
// wait for the receive. stream is the endpoint's Stream, and paired tells whether the two share words (fabric.Pairer).
func (r *Rules) Form(n, stream int, paired bool) Form {
	switch {
	case n <= r.Eager:
		return Eager
	case n <= r.AtOnce(stream):
		return Parts
	case !r.Reads:
		return Copied
	case paired && n >= shareFrom:
		return Shared
	}
	return Read
}

// AtOnce is the longest message that is not announced.
func (r *Rules) AtOnce(stream int) int {
	if r.Part == 0 {
		return 0
	}
	return max(r.Eager, min(stream, maxLong))
}

// Pieces is how many messages of the transport carry a payload of n bytes, or how many pieces the two sides share; a single
// read is one.
func (r *Rules) Pieces(f Form, n int) int {
	switch f {
	case Parts:
		return (n + r.Part - 1) / r.Part
	case Shared:
		return pieces(n)
	case Copied:
		return (n + r.Data - 1) / r.Data
	}
	return 1
}

// Lengths in bytes that are the same over all transports.
const (
	// HeaderBytes stand before the payload of a message that goes at once in the standard mode.
	HeaderBytes = envelopeBytes
	// ShareFrom is the length from which both sides copy an announced message, where they can.
	ShareFrom = shareFrom
)
