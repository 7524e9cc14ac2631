package notes

import (
	"fmt"
	"math"
	"strings"

	"github.com/ibrun/ibrun/perf"
)

// Table has the notes of an engine. The zero Table has none, and takes none.
type Table struct {
	peers    map[int32]*peerNotes // of processes with which notes were exchanged; nil: none are
	requests map[uint32]requestNotes
	// unreceived is the error for the first message with a note that was dropped without being
	// received.
	unreceived error
}

type peerNotes struct {
	next          *Note  // of the next message from the peer; nil: none has arrived
	sent, arrived uint64 // numbers of messages with notes to and from the peer
}

// requestNotes are the notes of a request.
type requestNotes struct {
	own    *Note
	sender *Note // receive: the note of the message; nil before it is matched, and if it has none
}

// NewTable returns a Table for an engine whose messages have notes.
func NewTable() Table {
	return Table{peers: map[int32]*peerNotes{}, requests: map[uint32]requestNotes{}}
}

// peer returns the notes of a process.
func (t *Table) peer(n int32) *peerNotes {
	p := t.peers[n]
	if p == nil {
		p = new(peerNotes)
		t.peers[n] = p
	}
	return p
}

// Set sets the note of a request, which has a number, and forgets what was known of an earlier use.
func (t *Table) Set(request uint32, own *Note) { t.requests[request] = requestNotes{own: own} }

// Of returns the note of a request; and of a receive, the note of its message, nil if that has
// none.
func (t *Table) Of(request uint32) (own, sender *Note) {
	n := t.requests[request]
	return n.own, n.sender
}

// maxWhere is the maximum length of a source position in a Note. The end of a longer one is sent.
const maxWhere = 160

// Send counts a message of a request to a process, and returns the Note to be sent before: a word
// and the payload.
func (t *Table) Send(peer int32, request uint32) (op uint64, payload []byte) {
	t.peer(peer).sent++
	n := t.requests[request].own
	return uint64(n.Op), []byte(n.Type + " " + n.Where[max(0, len(n.Where)-maxWhere):])
}

// Receive handles a Note: it belongs to the next message of the peer. It returns false for a Note
// that no correct process sends.
func (t *Table) Receive(peer int32, op uint64, payload []byte) bool {
	if t.peers == nil {
		return false
	}
	p := t.peer(peer)
	kind, where, found := strings.Cut(string(payload), " ")
	if p.next != nil || !found || len(where) > maxWhere || op > math.MaxUint8 {
		return false
	}
	p.next = &Note{Type: kind, Op: perf.Op(op), Where: where}
	p.arrived++
	return true
}

// Take returns the note of the message of a peer that is being handled; nil if it has none.
func (t *Table) Take(peer int32) *Note {
	if t.peers == nil {
		return nil
	}
	p := t.peers[peer]
	if p == nil {
		return nil
	}
	n := p.next
	p.next = nil
	return n
}

// Match records that a message from a rank has been matched with a receive, which has a note. n is
// that of the message, or nil. Match returns an error if the two differ, which is an ErrType.
func (t *Table) Match(request uint32, n *Note, source int32) error {
	own := t.requests[request].own
	t.requests[request] = requestNotes{own: own, sender: n}
	if n != nil && n.Type != own.Type && !own.accepts(n) {
		return &typeError{source, n, own}
	}
	return nil
}

// Lose records that a message with this note, unless it is nil, will never be received.
func (t *Table) Lose(n *Note, source int32) {
	if n != nil && t.unreceived == nil {
		t.unreceived = fmt.Errorf("a message was never received: rank %d sent it with %v", source, n)
	}
}

// Lost returns the error for the first message that Lose was called for, or nil.
func (t *Table) Lost() error { return t.unreceived }

// Sent returns the numbers of messages with notes that were sent to each of n processes.
func (t *Table) Sent(n int) []uint64 {
	sent := make([]uint64, n)
	for i, p := range t.peers {
		sent[i] = p.sent
	}
	return sent
}

// Arrived returns the number of messages with notes that have come from a process.
func (t *Table) Arrived(peer int32) uint64 {
	if p := t.peers[peer]; p != nil {
		return p.arrived
	}
	return 0
}
