package cost

import (
	"math/bits"
	"time"

	"github.com/ibrun/ibrun/mpi/internal/protocols"
)

const (
	firstClassBits = 12 // classes begin at 4 KiB
	lastClassBits  = 24 // the last one has all messages from 16 MiB on
	classCount     = 2*(lastClassBits-firstClassBits) + 1
)

// Marks are set in the length of a message that is to be measured, and returned in Elapsed. They
// are in none of the lengths that an engine accepts.
const (
	Timed    = 1 << 63 // it is to be measured
	Lone     = 1 << 62 // the receiver has sent something after each of the last two long messages
	AllMarks = Timed | Lone
)

// Peer has the measurements of the messages to one peer. The zero Peer has none.
type Peer struct {
	handshake times                       // what a lone read takes besides its copy, in nanoseconds
	received  uint64                      // messages from the peer when the last long one was sent
	answered  bool                        // the peer sent something between the last two long ones
	classes   [2][classCount]*lengthClass // of messages that overlap, and of lone ones; nil: none
}

// class returns the class of messages of n bytes. Of marks only Lone matters.
func (m *Peer) class(n int, marks uint64) *lengthClass {
	c := &m.classes[marks&Lone/Lone][classOf(n)]
	if *c == nil {
		*c = new(lengthClass)
	}
	return *c
}

// classOf returns the number of the class of messages of n bytes.
func classOf(n int) int {
	k := bits.Len(uint(n)) - 1 // n is in [2^k, 2^(k+1))
	if k < firstClassBits {
		return 0
	}
	i := 2 * (k - firstClassBits)
	if n>>(k-1)&1 != 0 { // the upper half, from 1.5 times 2^k on
		i++
	}
	return min(i, classCount-1)
}

// Choose returns the protocol of the next message of n bytes, and its marks: none if it is not to
// be measured. first is what the lengths suggest. possible are the protocols that can carry the
// message; RendezvousRead is one of them. received is the number of messages that have come from
// the peer.
func (m *Peer) Choose(n int, first protocols.Protocol, possible Set, received uint64) (_ protocols.Protocol, marks uint64) {
	if !possible.Has(first) {
		first = protocols.RendezvousRead
	}
	marks = Timed
	answered := received != m.received
	if answered && m.answered {
		marks |= Lone
	}
	m.received, m.answered = received, answered
	c := m.class(n, marks)
	c.lone, c.handshake = marks&Lone != 0, m.handshake.typical()/float64(n)
	protocol, measure := c.take(first, possible)
	if !measure {
		marks = 0
	}
	return protocol, marks
}

// Sent adds how long this process has copied some bytes of a message of n bytes to the peer; first
// is the time of the first fragment.
func (m *Peer) Sent(n int, marks uint64, protocol protocols.Protocol, spent, first time.Duration, bytes int) {
	if bytes == 0 {
		return
	}
	x := &m.class(n, marks).of[protocol].sender
	switch {
	case marks&Lone == 0:
		x.add(spent, bytes)
	case protocol == protocols.Fragmented:
		x.add(first, n)
	}
}

// Received adds how long the peer has copied some bytes of a message of n bytes, and chooses anew.
// whole is the time from the beginning of a lone message to its end; it is not positive if that is
// unknown.
func (m *Peer) Received(n int, marks uint64, protocol protocols.Protocol, spent, whole time.Duration, bytes int) {
	c := m.class(n, marks)
	switch {
	case marks&Lone == 0:
		c.received(protocol, spent, bytes)
	case whole > 0:
		if protocol == protocols.RendezvousRead {
			m.handshake.add(whole-spent, 1)
		}
		c.received(protocol, whole, n)
	}
}

// State returns what is known of messages of n bytes with some marks. chosen is the protocol that
// most of them take, and reports is the number of reports from which that follows. cost is what p
// costs, in nanoseconds for each byte; 0 if that is unknown.
func (m *Peer) State(n int, marks uint64, p protocols.Protocol) (chosen protocols.Protocol, reports int, cost float64) {
	c := m.class(n, marks)
	return c.chosen, c.reports, c.cost(p)
}
