package proto

import (
	"github.com/ibrun/ibrun/mpi/internal/notes"
	"github.com/ibrun/ibrun/mpi/internal/wire"
)

// If the configuration has Checks, a message of the program is preceded by a NOTE, and a receive
// has a note as well (package notes). While messages have notes none takes a fast path, as while
// they are traced, so the fast paths need no check.

// sendNote sends the note of a send. The first message of the send must follow immediately.
func (r *Request) sendNote() {
	e := r.e
	o := e.links.control.take()
	op, payload := e.checks.table.Send(r.route.Peer, r.index)
	o.body = payload
	o.header, o.length = wire.Header(wire.Envelope{Kind: wire.Note}, op)
	if _, err := e.links.post(r.route.Peer, o); err != nil {
		e.links.fail(r.route.Peer, err)
	}
}

// noteMatched compares the note of a message from a rank with that of the receive that it has been
// matched with. On a difference the receive fails when it completes.
func (r *Request) noteMatched(n *notes.Note, source int32) {
	if r.flags&noted == 0 {
		return
	}
	if err := r.e.checks.table.Match(r.index, n, source); err != nil {
		r.err = r.operationError(err)
	}
}

// setNote sets the note of a request that has no operation in progress yet.
func (r *Request) setNote(n *notes.Note) {
	r.e.checks.table.Set(r.index, n)
	r.flags |= noted
}
