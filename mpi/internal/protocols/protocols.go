package protocols

import (
	"cmp"
	"fmt"
	"math/rand/v2"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/mpi/internal/wire"
)

// Protocol is how the payload of a message is transferred. See the comment of package proto.
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
	// RendezvousCopy sends an RTS. When the receiver asks for the payload it is sent in several
	// messages of the transport.
	RendezvousCopy

	// Count is the number of protocols.
	Count
)

// Forced names the protocol of messages in place of the one that the engine would choose, so that
// protocols can be compared and tested. A message that the protocol cannot carry takes another one:
// see [Thresholds.Nearest].
type Forced struct {
	// Protocol is that of all messages if Random is nil.
	Protocol Protocol
	// Random draws the protocol of each message that is longer than an eager one. Shorter ones stay
	// eager, because programs rely on it that their sends do not wait. Only the goroutine that
	// holds the lock of the engine uses it.
	Random *rand.Rand
}

// PlainSends reports whether messages that the engine would send as one eager message are sent so.
// f may be nil.
func (f *Forced) PlainSends() bool { return f == nil || f.Random != nil || f.Protocol == Eager }

// Next returns the protocol that the next message is to take. short says that the engine would send
// it as one eager message.
func (f *Forced) Next(short bool) Protocol {
	switch {
	case f.Random == nil:
		return f.Protocol
	case short:
		return Eager
	}
	return Protocol(f.Random.IntN(int(Count)))
}

// Thresholds are the lengths, in bytes, that decide which protocol a message takes over one
// transport.
type Thresholds struct {
	// MaxEager is the largest payload of one eager message.
	MaxEager int
	// FragmentSize is the payload of each message of the Fragmented protocol.
	FragmentSize int
	// MaxData is the payload of each message of the RendezvousCopy protocol.
	MaxData int
	// Stream is that of the transport, and MaxStream too, up to the longest message that can be in
	// fragments.
	Stream, MaxStream int
	// CanRead reports whether a receiver can read the sender's memory.
	CanRead bool
}

// ThresholdsOf derives the thresholds from the capabilities of a transport. It fails if the
// transport cannot carry a header.
func ThresholdsOf(c fabric.Caps) (Thresholds, error) {
	room := c.MaxSend - wire.MaxHeader
	if room <= 0 {
		return Thresholds{}, fmt.Errorf("the transport carries messages of at most %d bytes: too short for a header of %d bytes",
			c.MaxSend, wire.MaxHeader)
	}
	eager := min(c.Eager, room)
	return Thresholds{MaxEager: eager, FragmentSize: min(eager, cmp.Or(c.Fragment, eager)), MaxData: room,
		Stream: c.Stream, MaxStream: min(c.MaxStream, MaxFragmented), CanRead: c.Read}, nil
}

// Choose returns the protocol of a standard-mode send of n bytes to a peer that has not paused this
// sender, unless measurements have shown another one to be faster. paired reports whether the two
// processes share words (fabric.CooperativeCopier).
func (x *Thresholds) Choose(n int, paired bool) Protocol {
	switch {
	case n <= x.MaxEager:
		return Eager
	case n <= x.EagerLimit():
		return Fragmented
	}
	return x.Rendezvous(n, paired)
}

// Rendezvous returns the protocol of a send of n bytes that begins with an RTS. paired is that of
// Choose.
func (x *Thresholds) Rendezvous(n int, paired bool) Protocol {
	switch {
	case !x.CanRead:
		return RendezvousCopy
	case paired && n >= MinShared:
		return RendezvousShared
	}
	return RendezvousRead
}

// Nearest returns p if it can carry a send of n bytes, and otherwise the protocol that is most like
// it: fragments for what does not fit one message, one message for what is no longer than a
// fragment, a read for what is too short to be shared, and copies where nothing can be read. If
// fragments are not allowed, as for synchronous sends, it is a read. paired is that of Choose.
func (x *Thresholds) Nearest(p Protocol, n int, fragments, paired bool) Protocol {
	if p <= Fragmented {
		switch {
		case n <= x.FragmentSize, p == Eager && n <= x.MaxData:
			return Eager
		case fragments && x.FragmentSize != 0 && n <= MaxFragmented:
			return Fragmented
		}
		p = RendezvousRead
	}
	if r := x.Rendezvous(n, paired); r == RendezvousCopy || p == RendezvousShared {
		return r
	}
	return p
}

// EagerLimit returns the length of the longest message that is sent without a rendezvous, unless
// measurements decide.
func (x *Thresholds) EagerLimit() int {
	if x.FragmentSize == 0 {
		return 0
	}
	return max(x.MaxEager, min(x.Stream, MaxFragmented))
}

// FragmentCount returns how many messages of the transport carry a payload of n bytes, or into how
// many pieces the two sides divide it. It returns 1 for a single read.
func (x *Thresholds) FragmentCount(p Protocol, n int) int {
	switch p {
	case Fragmented:
		return (n + x.FragmentSize - 1) / x.FragmentSize
	case RendezvousShared:
		return PieceCount(n)
	case RendezvousCopy:
		return (n + x.MaxData - 1) / x.MaxData
	}
	return 1
}

// Lengths in bytes that are the same for all transports.
const (
	// MinShared is the length from which both sides copy a message, where they can.
	MinShared = 4 << 10
	// MaxFragmented is the length of the longest message in fragments, and bounds what a peer may
	// claim for one: it is stored completely even if it is never received.
	MaxFragmented = 16 << 20
)
