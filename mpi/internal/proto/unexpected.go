package proto

import (
	"github.com/ibrun/ibrun/mpi/internal/match"
	"github.com/ibrun/ibrun/mpi/internal/notes"
	"github.com/ibrun/ibrun/mpi/internal/proto/internal/blocks"
	"github.com/ibrun/ibrun/mpi/internal/proto/internal/cost"
	"github.com/ibrun/ibrun/mpi/internal/proto/internal/record"
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

// unexpectedStore allocates unexpected messages, counts the bytes in use, and pauses the senders
// that fill it; flowcontrol.go says when and how. It refuses the messages that will not be
// received.
type unexpectedStore struct {
	links *links
	rec   *record.Recording
	notes *notes.Table

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

// store stores an unexpected message. It pauses a sender that fills the store.
func (s *unexpectedStore) store(peer int32, v wire.Envelope, w [5]uint64, payload []byte, total int) *unexpectedMessage {
	m := s.add(peer, v, w, payload, total)
	m.moves = s.links.peer(peer).moves
	s.rec.Active.Unexpected(s.count, s.held)
	if s.mustPause() {
		s.pauseSender(peer)
	}
	return m
}

// drop frees a message that has been removed from its table. It resumes the paused senders if there
// is room.
func (s *unexpectedStore) drop(m *unexpectedMessage) {
	if m.note != nil {
		s.removeNote(m)
	}
	s.remove(m)
	s.rec.Active.Unexpected(s.count, s.held)
	if s.mayResume() {
		s.resumeSenders()
	}
}

// refuseStored frees an unexpected message that this process will not receive. freed is as in
// refuse.
func (s *unexpectedStore) refuseStored(m *unexpectedMessage, freed bool) {
	s.refuse(m.peer, m.v, m.w, freed)
	s.abandonFragments(m)
	s.drop(m)
}

// abandonFragments drops the fragments of a message that have not arrived yet.
func (s *unexpectedStore) abandonFragments(m *unexpectedMessage) {
	if a := &s.links.peer(m.peer).frags; a.m == m {
		a.m, a.elapsed.Marks = nil, 0
	}
}

// refuse answers the sender of a message that is dropped, if it waits for the receiver. freed says
// that the communicator was freed by all of its processes.
func (s *unexpectedStore) refuse(peer int32, v wire.Envelope, w [5]uint64, freed bool) {
	answer := wire.Envelope{Kind: wire.Refuse}
	switch v.Kind {
	case wire.EagerSync:
		s.links.sendControl(peer, answer, w[0], freedWord(freed))
	case wire.RTS:
		s.links.sendControl(peer, answer, w[3], freedWord(freed))
	}
}

// freedWord is the word of Left and Refuse that says whether the communicator was freed.
func freedWord(freed bool) uint64 {
	if freed {
		return 1
	}
	return 0
}

// noteDropped records that a message that this process has refused will never be received. The
// sender of an RTS or of a synchronous message gets an error instead.
func (s *unexpectedStore) noteDropped(v wire.Envelope, n *notes.Note) {
	if v.Kind == wire.Eager || v.Kind == wire.FirstFrag {
		s.notes.Lose(n, v.Rank)
	}
}
