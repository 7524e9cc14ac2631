package proto

import (
	"github.com/ibrun/ibrun/mpi/internal/notes"
	"github.com/ibrun/ibrun/mpi/internal/wire"
)

// If the configuration has Checks, a message of the program is preceded by a Note, and a receive
// has a note as well (package notes). While messages have notes none takes a fast path, as while
// they are traced, so the fast paths need no check.

// sendNote sends the note of a send. The first message of the send must follow immediately.
func (x *sends) sendNote(r *Request) {
	o := x.links.control.take()
	op, payload := x.notes.Send(r.route.Peer, r.index)
	o.body = payload
	o.header, o.length = wire.Header(wire.Envelope{Kind: wire.Note}, op)
	if _, err := x.links.post(r.route.Peer, o); err != nil {
		x.links.fail(r.route.Peer, err)
	}
}

// noteMatched compares the note of a message from a rank with that of the receive that it has been
// matched with. On a difference the receive fails when it completes.
func (x *receives) noteMatched(r *Request, n *notes.Note, source int32) {
	if r.flags&noted == 0 {
		return
	}
	if err := x.notes.Match(r.index, n, source); err != nil {
		r.err = r.operationError(err)
	}
}

// setNote sets the note of a request that has no operation in progress yet. t is the table of the
// engine.
func (r *Request) setNote(t *notes.Table, n *notes.Note) {
	t.Set(r.index, n)
	r.flags |= noted
}
