package proto

import "math/bits"

// store keeps messages that came before their receives. Their payloads lie in blocks of a few sizes that are used
// again, so that a steady flow allocates nothing.
type store struct {
	free   *arrived
	blocks [16][][]byte // by power of two, from 64 bytes
	count  int          // of messages
	held   int          // bytes in use
	idle   int          // bytes of blocks that are not
	high   int          // above this senders are told to offer only
	low    int          // and below this to send again
	told   []int32      // who was told
}

// nodeBytes is roughly what remembering a message takes besides its payload.
const nodeBytes = 320

// limit sets the bound. Senders are stopped at a quarter of it: what is in the transport still comes, and the collector lets the
// heap grow beyond what is in use.
func (s *store) limit(bytes int) {
	if bytes <= 0 {
		bytes = 64 << 20
	}
	s.high, s.low = bytes/4, bytes/8
}

func blockClass(n int) int { return max(0, bits.Len(uint(n-1))-6) }

// block returns n bytes.
func (s *store) block(n int) []byte {
	if n == 0 {
		return nil
	}
	c := blockClass(n)
	if c >= len(s.blocks) {
		return make([]byte, n)
	}
	if k := len(s.blocks[c]); k > 0 {
		b := s.blocks[c][k-1]
		s.blocks[c] = s.blocks[c][:k-1]
		s.idle -= cap(b)
		return b[:n]
	}
	if s.idle > s.high { // all of it of other sizes
		s.blocks, s.idle = [16][][]byte{}, 0
	}
	return make([]byte, n, 64<<c)
}

// freeBlock keeps a block for later. What was once full may be again, and would leave everything to the collector each time,
// which lets the heap grow far beyond the bound.
func (s *store) freeBlock(b []byte) {
	if b == nil {
		return
	}
	if c := blockClass(cap(b)); c < len(s.blocks) && cap(b) == 64<<c {
		s.blocks[c] = append(s.blocks[c], b)
		s.idle += cap(b)
	}
}

// keep remembers a message whose whole payload is so long. A sender that fills the store is told to offer only.
func (e *Engine) keep(peer int32, v envelope, w [5]uint64, payload []byte, whole int) *arrived {
	s := &e.store
	m := s.free
	if m == nil {
		m = new(arrived)
		m.waiting.Init(m)
	} else {
		s.free = m.next
	}
	m.peer, m.v, m.w = peer, v, w
	m.data = s.block(whole)
	copy(m.data, payload)
	s.held += nodeBytes + cap(m.data)
	s.count++
	e.rec.Unexpected(s.count, s.held)
	if p := e.peer(peer); s.held > s.high && !p.choke {
		p.choke = true
		s.told = append(s.told, peer)
		e.note(peer, envelope{kind: kindChoke})
	}
	return m
}

// drop forgets a message that has been taken out of its table.
func (e *Engine) drop(m *arrived) {
	s := &e.store
	s.held -= nodeBytes + cap(m.data)
	s.count--
	e.rec.Unexpected(s.count, s.held)
	s.freeBlock(m.data)
	m.data = nil
	m.next, s.free = s.free, m
	if s.held < s.low && len(s.told) != 0 {
		for _, n := range s.told {
			e.peer(n).choke = false
			e.note(n, envelope{kind: kindUnchoke})
		}
		s.told = s.told[:0]
	}
}
