package proto

import (
	"fmt"

	"github.com/ibrun/ibrun/mpi/internal/notes"
	"github.com/ibrun/ibrun/mpi/internal/wire"
	"github.com/ibrun/ibrun/perf"
)

// If the configuration has Checks, a message of the program is preceded by a NOTE, and a receive
// has a note as well (package notes). While messages have notes none takes a fast path, as while
// they are traced, so the fast paths need no check.

// sendNote sends the note of a send. The first message of the send must follow immediately.
func (r *Request) sendNote() {
	e := r.e
	o := e.control.take()
	op, payload := e.notes.Send(r.route.Peer, r.index)
	o.body = payload
	o.header, o.length = wire.Header(wire.Envelope{Kind: wire.Note}, op)
	if err := e.post(r.route.Peer, o); err != nil {
		e.fail(r.route.Peer, err)
	}
}

// noteMatched compares the note of a message from a rank with that of the receive that it has been
// matched with. On a difference the receive fails when it completes.
func (r *Request) noteMatched(n *notes.Note, source int32) {
	if r.flags&noted == 0 {
		return
	}
	if err := r.e.notes.Match(r.index, n, source); err != nil {
		r.err = r.operationError(err)
	}
}

// setNote sets the note of a request that has no operation in progress yet.
func (r *Request) setNote(n *notes.Note) {
	r.e.notes.Set(r.index, n)
	r.flags |= noted
}

// IsendNoted is Isend for a message with a note.
func (e *Engine) IsendNoted(to Route, buf []byte, mode Mode, n *notes.Note) (Handle, error) {
	e.lock()
	defer e.unlock()
	began := e.rec.Active.Begin(to.Op, len(buf))
	r := e.requests.take(e)
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
	r := e.requests.take(e)
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

// noteDropped records that a message that this process has refused will never be received. The
// sender of an RTS or of a synchronous message gets an error instead.
func (e *Engine) noteDropped(v wire.Envelope, n *notes.Note) {
	if v.Kind == wire.Eager || v.Kind == wire.FirstFrag {
		e.notes.Lose(n, v.Rank)
	}
}

// NotesSent returns the numbers of messages with notes that were sent to the processes.
func (e *Engine) NotesSent() []uint64 {
	e.lock()
	defer e.unlock()
	return e.notes.Sent(len(e.peers))
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
			e.yield()
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
