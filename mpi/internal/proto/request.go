package proto

import (
	"github.com/ibrun/ibrun/mpi/internal/match"
	"github.com/ibrun/ibrun/mpi/internal/regcache"
	"github.com/ibrun/ibrun/perf"
)

// Status is what is known about a message that was received or found.
type Status struct {
	Source, Tag int32
	Cancelled   bool
	Bytes       int
}

// empty is the status where there is no message.
var empty = Status{Source: AnySource, Tag: AnyTag}

// Mode is how a send completes.
type Mode uint8

// The modes. A standard send may complete before it is matched, a synchronous one may not, and a buffered one
// completes at once since the attached buffer takes a copy.
const (
	Standard Mode = iota
	Synchronous
	Buffered
)

// Route says where a message goes or comes from. It has four fields, as many as the compiler keeps in registers: with five it is
// copied through memory, in overlapping pieces that wait for each other.
type Route struct {
	Context uint32
	Peer    int32 // number of the receiving process, or Nobody; of a receive, who is waited for, which is only shown
	Match
	Op perf.Op // what is recorded of it
}

// Match is what sender and receiver agree on besides the context.
type Match struct {
	Rank int32 // in the context: of the sender, or that a receive wants, or AnySource
	Tag  int32 // or AnyTag
}

// Wildcards of a receive's Route, and the process that does not exist: messages to it are gone at once, and from it
// come empty ones.
const (
	AnySource = match.AnySource
	AnyTag    = match.AnyTag
	ProcNull  = -3
)

// state of a request:
//
//	free -> active -> done -> free                    ordinary
//	free -> inactive -> active -> done -> inactive    persistent
type state uint8

const (
	free state = iota
	inactive
	active
	done
)

// ends are things to do when a request completes, a bit each.
type ends uint8

const (
	unseen    ends = 1 << iota // freed while active, or nobody's from the start: it is released
	announced                  // the sender was told the buffer
	revoked                    // and that it must not be used
	kept                       // persistent: it stays its user's, and so does what is known of it
	lent                       // buf is a loan of the attached buffer, which goes back
)

// Request is the place of an operation under way. It belongs to its engine and is used again; a [Handle] says which use
// is meant.
type Request struct {
	e     *Engine
	state state
	send  bool
	mode  Mode
	ends  ends // what else is to be done when it completes
	loan  int  // of the attached buffer
	gen   uint64
	index uint32
	turn  uint32 // counts operations, those of a persistent request one by one: peers call it by that

	buf     []byte // the user's memory, reachable from here until completion
	route   Route
	epoch   uint32 // send: in which it is counted
	status  Status
	err     error
	verdict error // how a revoked receive ends

	posted match.Receive[Request]
	next   *Request // free list

	out    outgoing        // send: what is to go to the peer
	word   int             // send: word of the pair this transfer is agreed on, or -1
	memory regcache.Memory // send: what the peer may read
	move   transfer
}

// Handle names one use of a request. The zero Handle names none.
type Handle struct {
	r   *Request
	gen uint64
}

const slab = 64

// take returns a fresh request. The caller holds the lock, as for everything here.
func (e *Engine) take() *Request {
	r := e.idle
	if r == nil {
		r = e.moreRequests()
	}
	e.idle = r.next
	r.state = active
	return r
}

// moreRequests puts some into the free list and returns its first.
func (e *Engine) moreRequests() *Request {
	block := new([slab]Request)
	base := len(e.requests) * slab
	e.requests = append(e.requests, block)
	for i := slab - 1; i >= 0; i-- {
		r := &block[i]
		r.e, r.index, r.gen, r.turn, r.word = e, uint32(base+i), 1, 1, -1
		r.posted.Init(r)
		r.out.req = r
		r.move.req = r
		r.next, e.idle = e.idle, r
	}
	return e.idle
}

// id is what names an operation to a peer: slot, and which of those in it. Word of one that has ended may come late.
func (r *Request) id() uint64 { return uint64(r.index)<<32 | uint64(r.turn) }

// byID finds the active request that a peer names; nil if there is none, which no correct peer causes.
func (e *Engine) byID(id uint64) *Request {
	i := int(id >> 32)
	if i/slab >= len(e.requests) {
		return nil
	}
	r := &e.requests[i/slab][i%slab]
	if r.state != active || r.turn != uint32(id) {
		return nil
	}
	return r
}

func (r *Request) handle() Handle { return Handle{r, r.gen} }

// Encode are h as two numbers, which name it to Named.
func (h Handle) Encode() (a, b uint64) { return uint64(h.r.index), h.gen }

// DecodeHandle is the handle with these numbers.
func (e *Engine) DecodeHandle(a, b uint64) Handle {
	e.lock()
	defer e.unlock()
	return Handle{&e.requests[a/slab][a%slab], b}
}

// complete ends an operation.
func (e *Engine) complete(r *Request, err error) {
	r.state = done
	if err != nil {
		r.err = err // nil since it began
	}
	if e.parked != 0 || e.sleeping {
		e.unpark()
	}
	if r.ends != 0 {
		e.end(r)
	} else {
		r.buf = nil
	}
}

// end does what else is to be done when a request has completed.
func (e *Engine) end(r *Request) {
	if r.ends&announced != 0 {
		e.unannounce(r)
	}
	if r.ends&kept == 0 {
		r.buf = nil
	}
	if r.ends&unseen != 0 {
		e.release(r)
	}
}

// collect returns the outcome of a completed request and ends this use of it.
func (e *Engine) collect(r *Request) (Status, error) {
	st, err := r.status, r.err
	if r.ends&kept != 0 {
		r.state = inactive
		r.turn++
	} else {
		e.release(r)
	}
	return st, err
}

// release makes a request free. Handles of this use are stale from now on.
func (e *Engine) release(r *Request) {
	if r.ends&lent != 0 {
		e.loans.end(r.loan)
	}
	r.free()
	if r.buf != nil || r.err != nil { // mostly neither, and to store pointers costs
		r.buf, r.err = nil, nil
	}
	r.ends = 0
	r.next, e.idle = e.idle, r
}

// free ends a use of the request: handles of it are stale from now on.
func (r *Request) free() {
	r.gen++
	r.turn++
	r.epoch = 0
	r.state = free
}

// valid tells whether the handle names a request that can still be waited for. The caller holds the lock.
func (h Handle) valid() bool { return h.r.gen == h.gen && h.r.state != free && h.r.ends&unseen == 0 }

// Zero tells whether h is the zero Handle.
func (h Handle) Zero() bool { return h.r == nil }

// Engine returns the engine of a handle that is not zero.
func (h Handle) Engine() *Engine { return h.r.e }
