package messages

import (
	"fmt"

	"github.com/ibrun/ibrun/fabric"
)

// Loopback carries messages from this process to itself. It allocates its slots when they are first
// used.
type Loopback struct {
	Bytes int // largest message
	slots [loopbackSlots]loopbackSlot
	// These count messages and wrap around. The messages from freed to delivered are borrowed by
	// the caller of Poll, those from delivered to sent are queued.
	freed, delivered, sent uint32
}

const loopbackSlots = 32

// loopbackSlot holds a message of n bytes. mem is nil until it is used.
type loopbackSlot struct {
	mem []byte
	n   int
}

// Send queues a message. It returns fabric.ErrAgain if all slots are in use.
func (l *Loopback) Send(header, payload []byte) error {
	s := l.next()
	if s == nil {
		return fabric.ErrAgain
	}
	s.n = copy(s.mem, header)
	s.n += copy(s.mem[s.n:], payload)
	l.sent++
	return nil
}

// SendFrom is Send for data in parts: n bytes of src from a byte on. self is the number of this
// process.
func (l *Loopback) SendFrom(self int, header []byte, src fabric.Source, from int64, n int) error {
	s := l.next()
	if s == nil {
		return fabric.ErrAgain
	}
	s.n = copy(s.mem, header)
	if src.Pack(s.mem[s.n:s.n+n], from) != n {
		return ErrShortSource(self, from, n)
	}
	s.n += n
	l.sent++
	return nil
}

// next returns the slot of the next message, nil if all are in use.
func (l *Loopback) next() *loopbackSlot {
	if l.sent-l.freed == loopbackSlots {
		return nil
	}
	s := &l.slots[l.sent%loopbackSlots]
	if s.mem == nil {
		s.mem = make([]byte, l.Bytes)
	}
	return s
}

// Deliver fills evs with queued messages, and returns how many there were.
func (l *Loopback) Deliver(evs []fabric.Event, self int32) (n int) {
	for ; n < len(evs) && l.delivered != l.sent; n++ {
		s := &l.slots[l.delivered%loopbackSlots]
		evs[n] = fabric.Event{Kind: fabric.Message, Peer: self, Data: s.mem[:s.n:s.n]}
		l.delivered++
	}
	return n
}

// Release frees the slots of the delivered messages.
func (l *Loopback) Release() { l.freed = l.delivered }

// Clear drops the queued messages.
func (l *Loopback) Clear() { l.delivered = l.sent }

// Pending reports whether messages are queued.
func (l *Loopback) Pending() bool { return l.delivered != l.sent }

// ErrShortSource returns the error for a source that has fewer than n bytes from a byte on.
func ErrShortSource(peer int, from int64, n int) error {
	return fmt.Errorf("fabric/rdma: send to peer %d: the source has fewer than %d bytes from byte %d on", peer, n, from)
}
