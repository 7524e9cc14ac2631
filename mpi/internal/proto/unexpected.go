package proto

import "github.com/ibrun/ibrun/mpi/internal/wire"

// storeUnexpected stores an unexpected message. It pauses a sender that fills the store.
func (e *Engine) storeUnexpected(peer int32, v wire.Envelope, w [5]uint64, payload []byte, total int) *unexpectedMessage {
	s := &e.unexpected
	m := s.add(peer, v, w, payload, total)
	m.moves = e.links.peer(peer).moves
	e.rec.Active.Unexpected(s.count, s.held)
	if s.held > s.high {
		e.pauseSender(peer)
	}
	return m
}

// dropUnexpected frees a message that has been removed from its table. It resumes the paused senders if there is room.
func (e *Engine) dropUnexpected(m *unexpectedMessage) {
	s := &e.unexpected
	if m.note != nil {
		s.removeNote(m)
	}
	s.remove(m)
	e.rec.Active.Unexpected(s.count, s.held)
	if s.held < s.low && len(s.paused) != 0 {
		e.resumeSenders()
	}
}

// acceptUnexpected matches an unexpected message, already removed from its table, with a receive.
func (e *Engine) acceptUnexpected(r *Request, m *unexpectedMessage) {
	e.rec.Matched(m.peer, m.v, m.number, m.bytes())
	r.noteMatched(m.note, m.v.Rank)
	switch m.v.Kind {
	case wire.RTS:
		if m.moves != e.links.peer(m.peer).moves {
			// Another domain has taken over since the message arrived. The memory is registered with the old one, and cannot be read.
			m.w[1], m.w[2] = wire.NoWord, wire.NoWord
		}
		r.startRendezvous(m.peer, m.v, m.w, false)
	case wire.FirstFrag:
		e.acceptFragments(r, m)
	default:
		if m.v.Kind == wire.EagerSync {
			e.links.sendControl(m.peer, wire.Envelope{Kind: wire.FIN}, m.w[0])
		}
		e.deliver(r, m.v.Rank, m.v.Tag, m.data)
	}
	e.dropUnexpected(m)
}
