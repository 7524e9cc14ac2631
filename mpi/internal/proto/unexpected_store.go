package proto

import (
	"github.com/ibrun/ibrun/mpi/internal/match"
	"github.com/ibrun/ibrun/mpi/internal/notes"
	"github.com/ibrun/ibrun/mpi/internal/proto/internal/blocks"
	"github.com/ibrun/ibrun/mpi/internal/proto/internal/cost"
	"github.com/ibrun/ibrun/mpi/internal/wire"
)

// unexpectedMessage is a message that arrived before its receive was posted.
type unexpectedMessage struct {
	node   match.Message[unexpectedMessage]
	next   *unexpectedMessage // free list
	peer   int32
	number uint32 // see countReceived
	moves  uint32 // peer.moves when it arrived
	v      wire.Envelope
	w      [5]uint64
	data   []byte
	note   *notes.Note // nil: the message has none
}

// bytes returns the length of the message.
func (m *unexpectedMessage) bytes() int { return messageBytes(m.v, m.w, m.data) }

func messageBytes(v wire.Envelope, w [5]uint64, payload []byte) int {
	if v.Kind == wire.RTS {
		return int(w[0] &^ cost.AllMarks)
	}
	return len(payload)
}

// unexpectedStore allocates unexpected messages, and counts the bytes in use.
type unexpectedStore struct {
	free   *unexpectedMessage
	blocks blocks.Pool                 // for payloads
	count  int                         // messages
	held   int                         // bytes in use
	high   int                         // with more bytes in use, senders are paused
	low    int                         // with fewer bytes in use, they are resumed
	paused []int32                     // the paused senders
	noted  map[*unexpectedMessage]bool // the messages with notes
}

// nodeBytes is roughly the memory of an unexpected message besides its payload.
const nodeBytes = 320

// setLimit sets the bound on the memory; 0 means 64 MiB. Senders are paused at a quarter of it:
// what is in the transport still arrives, and the garbage collector lets the heap grow beyond what
// is in use.
func (s *unexpectedStore) setLimit(bytes int) {
	if bytes <= 0 {
		bytes = 64 << 20
	}
	s.high, s.low = bytes/4, bytes/8
	s.blocks.SetLimit(s.high)
}

// add stores a message with a payload of total bytes, of which payload has arrived.
func (s *unexpectedStore) add(peer int32, v wire.Envelope, w [5]uint64, payload []byte, total int) *unexpectedMessage {
	m := s.free
	if m == nil {
		m = new(unexpectedMessage)
		m.node.Init(m)
	} else {
		s.free = m.next
	}
	m.peer, m.v, m.w = peer, v, w
	m.data = s.blocks.Get(total)
	copy(m.data, payload)
	s.held += nodeBytes + cap(m.data)
	s.count++
	return m
}

// setNote sets the note of a message.
func (s *unexpectedStore) setNote(m *unexpectedMessage, n *notes.Note) {
	if n == nil {
		return
	}
	if s.noted == nil {
		s.noted = map[*unexpectedMessage]bool{}
	}
	m.note, s.noted[m] = n, true
}

// removeNote removes the note of a message.
func (s *unexpectedStore) removeNote(m *unexpectedMessage) {
	delete(s.noted, m)
	m.note = nil
}

// remove frees a message, which must have no note.
func (s *unexpectedStore) remove(m *unexpectedMessage) {
	s.held -= nodeBytes + cap(m.data)
	s.count--
	s.blocks.Put(m.data)
	m.data = nil
	m.next, s.free = s.free, m
}
