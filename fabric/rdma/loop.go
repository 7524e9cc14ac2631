package rdma

import "github.com/ibrun/ibrun/fabric"

// loop carries messages from this peer to itself. It makes memory when it is first used.
type loop struct {
	bytes int // of a message at most
	slots [loopSlots]struct {
		mem []byte
		n   int
	}
	freed, taken, put uint32 // numbers of the oldest that is lent, of the next to be delivered, and of the next
}

const loopSlots = 32

func (l *loop) send(header, payload []byte) error {
	if l.put-l.freed == loopSlots {
		return fabric.ErrAgain
	}
	s := &l.slots[l.put%loopSlots]
	if s.mem == nil {
		s.mem = make([]byte, l.bytes)
	}
	s.n = copy(s.mem, header)
	s.n += copy(s.mem[s.n:], payload)
	l.put++
	return nil
}

func (l *loop) deliver(evs []fabric.Event, self int32) (n int) {
	for ; n < len(evs) && l.taken != l.put; n++ {
		s := &l.slots[l.taken%loopSlots]
		evs[n] = fabric.Event{Kind: fabric.Message, Peer: self, Data: s.mem[:s.n:s.n]}
		l.taken++
	}
	return n
}

func (l *loop) release()   { l.freed = l.taken }
func (l *loop) clear()     { l.taken = l.put }
func (l *loop) some() bool { return l.taken != l.put }
