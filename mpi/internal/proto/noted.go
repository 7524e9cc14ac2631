package proto

import (
	"fmt"

	"github.com/ibrun/ibrun/mpi/internal/notes"
	"github.com/ibrun/ibrun/perf"
)

// The calls of programs whose messages have notes; note.go has the notes of requests.

// IsendNoted is Isend for a message with a note.
func (e *Engine) IsendNoted(to Route, buf []byte, mode Mode, n *notes.Note) (Handle, error) {
	e.lock()
	defer e.unlock()
	began := e.rec.Active.Begin(to.Op, len(buf))
	r := e.requests.take()
	r.send, r.mode, r.route, r.buf = true, mode, to, buf
	r.setNote(n)
	h := r.handle()
	err := e.startSend(r)
	e.rec.SetPeer(to.Context, to.Peer, to.Tag)
	e.rec.Active.End(to.Op, to.Moves(len(buf)), began)
	return h, err
}

// IrecvNoted is Irecv with a note.
func (e *Engine) IrecvNoted(from Route, buf []byte, n *notes.Note) Handle {
	e.lock()
	defer e.unlock()
	began := e.rec.Active.Begin(from.Op, len(buf))
	r := e.requests.take()
	r.send, r.route, r.buf = false, from, buf
	r.setNote(n)
	e.startRecv(r)
	e.rec.SetPeer(from.Context, from.Peer, from.Tag)
	e.rec.Active.End(from.Op, from.Moves(len(buf)), began)
	return r.handle()
}

// SetNote sets the note of a persistent request that has not been started.
func (e *Engine) SetNote(h Handle, n *notes.Note) {
	e.lock()
	defer e.unlock()
	h.r.setNote(n)
}

// RecvMatchedNoted is RecvMatched with a note.
func (e *Engine) RecvMatchedNoted(op perf.Op, f MatchedMessage, buf []byte, n *notes.Note) Handle {
	e.lock()
	defer e.unlock()
	return e.recvMatched(op, f, buf, nil, n)
}

// NotesSent returns the numbers of messages with notes that were sent to the processes.
func (e *Engine) NotesSent() []uint64 {
	e.lock()
	defer e.unlock()
	return e.notes.Sent(len(e.links.peers))
}

// Unfinished blocks until so many messages with notes have arrived from the processes. It returns
// an error if one of them was never received, or if an operation was never completed by a wait, or
// nil.
func (e *Engine) Unfinished(arrive []uint64) error {
	e.lock()
	defer e.unlock()
	for i, n := range arrive {
		for n != 0 && e.notes.Arrived(int32(i)) < n {
			if err := e.pollOnce(); err != nil {
				return err
			}
			e.waiters.yield()
		}
	}
	for m := range e.unexpected.noted {
		e.notes.Lose(m.note, m.v.Rank)
	}
	if err := e.notes.Lost(); err != nil {
		return err
	}
	for _, slab := range e.requests.slabs {
		for i := range slab {
			r := &slab[i]
			if r.flags&(noted|detached) == noted && (r.state == active || r.state == done) {
				own, _ := e.notes.Of(r.index)
				return fmt.Errorf("a request was never completed by a wait or freed: that of %v", own)
			}
		}
	}
	return nil
}
