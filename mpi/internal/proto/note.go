package proto

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/mpi/internal/wire"
	"github.com/ibrun/ibrun/perf"
)

// If the configuration has Checks, a message of the program is preceded by a NOTE: the type of its elements, and the source
// position of the send. The two belong together because the messages of a peer arrive in order. A receive has a note as well,
// which is compared when the receive is matched. Messages of collectives have none. While messages have notes none takes a fast
// path, as while they are traced, so the fast paths need no check.

// ErrType reports that a message and its receive have elements of different types.
var ErrType = errors.New("element types differ")

// Note describes a message, or a receive, as the program wrote it.
type Note struct {
	// Type is the name of the type of the elements, or mixedType with the signature of all.
	Type string
	// mixed are the elements if they are of several types.
	mixed datatype.Buffer
	// Op is the call, and Where its source position, such as "solver/main.go:31".
	Op    perf.Op
	Where string
}

// String returns "Send of float64 at solver/main.go:31".
func (n *Note) String() string {
	return fmt.Sprintf("%v of %s at %s", n.Op, n.Type, n.Where)
}

// notes are the notes of an engine with Config.Checks. Peers and requests have no fields for them, so that these stay small.
type notes struct {
	peers    map[int32]*peerNotes // of processes with which notes were exchanged
	requests map[*Request]requestNotes
	// unreceived is the error for the first message with a note that was dropped without being received.
	unreceived error
}

type peerNotes struct {
	next          *Note  // of the next message from the peer; nil: none has arrived
	sent, arrived uint64 // numbers of messages with notes to and from the peer
}

// requestNotes are the notes of a request with the flag noted.
type requestNotes struct {
	own    *Note
	sender *Note // receive: the note of the message; nil before it is matched, and if it has none
}

func (s *notes) init() {
	s.peers, s.requests = map[int32]*peerNotes{}, map[*Request]requestNotes{}
}

// peer returns the notes of a process.
func (s *notes) peer(n int32) *peerNotes {
	p := s.peers[n]
	if p == nil {
		p = new(peerNotes)
		s.peers[n] = p
	}
	return p
}

// maxWhere is the maximum length of a source position in a NOTE. The end of a longer one is sent.
const maxWhere = 160

// sendNote sends the note of a send. The first message of the send must follow immediately.
func (r *Request) sendNote() {
	e := r.e
	n := e.notes.requests[r].own
	e.notes.peer(r.route.Peer).sent++
	o := e.newControl()
	o.body = []byte(n.Type + " " + n.Where[max(0, len(n.Where)-maxWhere):])
	o.header, o.length = wire.Header(wire.Envelope{Kind: wire.Note}, uint64(n.Op))
	if err := e.post(r.route.Peer, o); err != nil {
		e.fail(r.route.Peer, err)
	}
}

// handleNote handles a NOTE: it belongs to the next message of the peer.
func (e *Engine) handleNote(peer int32, w [5]uint64, text []byte) bool {
	if !e.checks {
		return false
	}
	p := e.notes.peer(peer)
	kind, where, found := strings.Cut(string(text), " ")
	if p.next != nil || !found || len(where) > maxWhere || w[0] > math.MaxUint8 {
		return false
	}
	p.next = &Note{Type: kind, Op: perf.Op(w[0]), Where: where}
	p.arrived++
	return true
}

// takeNote returns the note of the message of a peer that is being handled; nil if it has none.
func (e *Engine) takeNote(peer int32) *Note {
	if !e.checks {
		return nil
	}
	p := e.notes.peers[peer]
	if p == nil {
		return nil
	}
	n := p.next
	p.next = nil
	return n
}

// noteMatched compares the note of a message from a rank with that of the receive that it has been matched with. On a difference
// the receive fails when it completes.
func (r *Request) noteMatched(n *Note, source int32) {
	if r.flags&noted == 0 {
		return
	}
	own := r.e.notes.requests[r].own
	r.e.notes.requests[r] = requestNotes{own: own, sender: n}
	if n != nil && n.Type != own.Type && !own.accepts(n) {
		r.err = r.operationError(&typeError{source, n, own})
	}
}

// Elements of several types are described by their signature: mixedType, the number of bytes, and in hexadecimal the number of
// elements and the hash. A message that is shorter than its receive is compared with the beginning of the receive.
const mixedType = "mixed"

// SetMixed makes n describe the elements of d, which are of several types.
func (n *Note) SetMixed(d *datatype.Buffer) {
	s, _ := d.SignatureOf(d.Size())
	n.mixed, n.Type = *d, fmt.Sprintf("%s:%d:%x:%x", mixedType, d.Size(), s.Count, s.Hash)
}

// accepts reports whether a receive with the note n may receive a message with another note: one of packed bytes, an empty one,
// or one with the same elements as the beginning of the receive. A longer one is an error of another kind.
func (n *Note) accepts(sent *Note) bool {
	packed, none := datatype.Packed.String(), datatype.Kind(0).String()
	if n.Type == packed || sent.Type == packed || sent.Type == none || n.Type == none {
		return true
	}
	var bytes int64
	var s datatype.Signature
	if c, err := fmt.Sscanf(sent.Type, mixedType+":%d:%x:%x", &bytes, &s.Count, &s.Hash); c != 3 || err != nil {
		return false
	}
	own, ok := n.mixed.SignatureOf(bytes)
	return ok && own == s || n.mixed.Size() != 0 && bytes > n.mixed.Size()
}

// typeError is an ErrType with the details of the message.
type typeError struct {
	source        int32
	sent, receive *Note
}

func (t *typeError) Error() string {
	return fmt.Sprintf("%v, but rank %d sent it with %v", t.receive, t.source, t.sent)
}

// Unwrap makes the error an ErrType.
func (t *typeError) Unwrap() error { return ErrType }

// setNote sets the note of a request that has no operation in progress yet.
func (r *Request) setNote(n *Note) {
	r.e.notes.requests[r] = requestNotes{own: n}
	r.flags |= noted
}

// IsendNoted is Isend for a message with a note.
func (e *Engine) IsendNoted(to Route, buf []byte, mode Mode, n *Note) (Handle, error) {
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
func (e *Engine) IrecvNoted(from Route, buf []byte, n *Note) Handle {
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
func (e *Engine) SetNote(h Handle, n *Note) {
	e.lock()
	defer e.unlock()
	h.r.setNote(n)
}

// RecvMatchedNoted is RecvMatched with a note.
func (e *Engine) RecvMatchedNoted(op perf.Op, f MatchedMessage, buf []byte, n *Note) Handle {
	e.lock()
	defer e.unlock()
	return e.recvMatched(op, f, buf, nil, n)
}

// noteUnreceived records that a message with this note is dropped because it cannot be received any more.
func (e *Engine) noteUnreceived(n *Note, source int32) {
	if n != nil && e.notes.unreceived == nil {
		e.notes.unreceived = fmt.Errorf("a message was never received: rank %d sent it with %v", source, n)
	}
}

// noteDropped is noteUnreceived for a message that this process has refused. The sender of an RTS or of a synchronous message
// gets an error.
func (e *Engine) noteDropped(v wire.Envelope, n *Note) {
	if v.Kind == wire.Eager || v.Kind == wire.FirstFrag {
		e.noteUnreceived(n, v.Rank)
	}
}

// NotesSent returns the numbers of messages with notes that were sent to the processes.
func (e *Engine) NotesSent() []uint64 {
	e.lock()
	defer e.unlock()
	sent := make([]uint64, len(e.peers))
	for n, p := range e.notes.peers {
		sent[n] = p.sent
	}
	return sent
}

// Unfinished blocks until so many messages with notes have arrived from the processes. It returns an error if one of them was
// never received, or if an operation was never completed by a wait, or nil.
func (e *Engine) Unfinished(arrive []uint64) error {
	e.lock()
	defer e.unlock()
	for i, n := range arrive {
		for n != 0 && e.notes.peer(int32(i)).arrived < n {
			if err := e.pollOnce(); err != nil {
				return err
			}
			e.yield()
		}
	}
	for m := range e.unexpected.noted {
		e.noteUnreceived(m.note, m.v.Rank)
	}
	if e.notes.unreceived != nil {
		return e.notes.unreceived
	}
	for _, slab := range e.requests.slabs {
		for i := range slab {
			r := &slab[i]
			if r.flags&(noted|detached) == noted && (r.state == active || r.state == done) {
				return fmt.Errorf("a request was never completed by a wait or freed: that of %v", e.notes.requests[r].own)
			}
		}
	}
	return nil
}
