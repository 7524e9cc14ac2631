package rdma

import "github.com/ibrun/ibrun/fabric"

// loopback carries messages from this process to itself. It allocates its slots when they are first used.
type loopback struct {
	bytes int // largest message
	slots [loopbackSlots]loopbackSlot
	// These count messages and wrap around. The messages from freed to delivered are borrowed by the caller of Poll, those from
	// delivered to sent are queued.
	freed, delivered, sent uint32
}

const loopbackSlots = 32

// loopbackSlot holds a message of n bytes. mem is nil until it is used.
type loopbackSlot struct {
	mem []byte
	n   int
}

func (l *loopback) send(header, payload []byte) error {
	s := l.next()
	if s == nil {
		return fabric.ErrAgain
	}
	s.n = copy(s.mem, header)
	s.n += copy(s.mem[s.n:], payload)
	l.sent++
	return nil
}

// sendFrom is send for data in parts.
func (l *loopback) sendFrom(self int, header []byte, src fabric.Source, from int64, n int) error {
	s := l.next()
	if s == nil {
		return fabric.ErrAgain
	}
	s.n = copy(s.mem, header)
	if src.Pack(s.mem[s.n:s.n+n], from) != n {
		return errShortSource(self, from, n)
	}
	s.n += n
	l.sent++
	return nil
}

// next returns the slot of the next message, nil if all are in use.
func (l *loopback) next() *loopbackSlot {
	if l.sent-l.freed == loopbackSlots {
		return nil
	}
	s := &l.slots[l.sent%loopbackSlots]
	if s.mem == nil {
		s.mem = make([]byte, l.bytes)
	}
	return s
}

// deliver fills evs with queued messages, and returns how many there were.
func (l *loopback) deliver(evs []fabric.Event, self int32) (n int) {
	for ; n < len(evs) && l.delivered != l.sent; n++ {
		s := &l.slots[l.delivered%loopbackSlots]
		evs[n] = fabric.Event{Kind: fabric.Message, Peer: self, Data: s.mem[:s.n:s.n]}
		l.delivered++
	}
	return n
}

// release frees the slots of the delivered messages.
func (l *loopback) release() { l.freed = l.delivered }

// clear drops the queued messages.
func (l *loopback) clear() { l.delivered = l.sent }

// pending reports whether messages are queued.
func (l *loopback) pending() bool { return l.delivered != l.sent }
