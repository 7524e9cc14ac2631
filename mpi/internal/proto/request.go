package proto

import (
	"github.com/ibrun/ibrun/mpi/internal/match"
	"github.com/ibrun/ibrun/mpi/internal/regcache"
	"github.com/ibrun/ibrun/mpi/internal/wire"
	"github.com/ibrun/ibrun/perf"
)

// Status describes a message that was received or probed.
type Status struct {
	Source, Tag int32
	Cancelled   bool
	Bytes       int
}

// emptyStatus is the status of an operation without a message; cancelledStatus is that of a
// cancelled operation.
var (
	emptyStatus     = Status{Source: AnySource, Tag: AnyTag}
	cancelledStatus = Status{Source: AnySource, Tag: AnyTag, Cancelled: true}
)

// Mode is the mode of a send, which decides when it completes.
type Mode uint8

// The modes. A standard send may complete before it is matched; a synchronous one may not. A
// buffered send completes immediately, since the message is copied into the attached buffer.
const (
	Standard Mode = iota
	Synchronous
	Buffered
)

// Route is the destination or source of a message. It has four fields, as many as the compiler
// keeps in registers: a struct of five is copied through memory, in overlapping pieces that wait
// for each other.
type Route struct {
	Context uint32
	// Peer is the number of the receiving process, or ProcNull. Of a receive it is that of the
	// expected sender, which matching does not use.
	Peer int32
	Match
	Op perf.Op // the operation that is recorded
}

// Moves returns how many bytes are recorded for a buffer of n bytes: none if the message is to or
// from ProcNull.
func (r *Route) Moves(n int) int {
	if r.Peer == ProcNull || r.Rank == ProcNull {
		return 0
	}
	return n
}

// Match is what sender and receiver agree on besides the context: the rank, for which a receive may
// have AnySource, and the tag, for which it may have AnyTag.
type Match = wire.Match

// The wildcards of a receive, and the null process: messages to it are complete immediately,
// receives from it get an empty message.
const (
	AnySource = match.AnySource
	AnyTag    = match.AnyTag
	ProcNull  = -3
)

// state is the state of a request:
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

// requestFlags say what else has to be done when a request completes. The common request has none.
type requestFlags uint16

const (
	detached     requestFlags = 1 << iota // no handle is in use any more: the request is released
	rtrSent                               // an RTR with its buffer has been sent
	rtrRevoked                            // and RTRCancel
	persistent                            // the request stays allocated, with its arguments
	attachedMem                           // buf is a block of the attached buffer, to be freed
	noted                                 // the request has a note
	inParts                               // data is set
	inSet                                 // member is valid
	hasChannel                            // the request has an entry in channels.open
	hasCallbacks                          // the request has an entry in callbacks
	withdrawing                           // a send that ends as cancelled if it is not matched
	noCancel                              // the program can neither cancel nor free the request
	inSchedule                            // a message of schedule
	contextEnded                          // the context has ended; only of persistent requests
)

// Request is an operation in progress. It belongs to its engine and is reused; a [Handle] says
// which use is meant.
type Request struct {
	e     *Engine // for Handle.Engine
	state state
	send  bool
	mode  Mode
	flags requestFlags
	block int // id of the block of the attached buffer
	gen   uint64
	index uint32
	seq   uint32 // number of the operation, also of each start of a persistent request; part of id

	buf    []byte // the user's memory, reachable from here until the request has completed
	data   *parts // the same if it is in parts; buf is nil then
	route  Route
	epoch  uint32 // send: the epoch in which the message is counted
	status Status
	err    error
	// revokeErr is the result of a receive whose RTR has been revoked.
	revokeErr error

	posted  match.Receive[Request]
	next    *Request // free list
	sleeper *sleeper // the goroutines that sleep until the operation ends; nil: none

	out      outgoing        // send: the message for the peer
	word     int             // send: index of the shared word for this transfer, or -1
	exposed  regcache.Memory // send: memory that the peer may read
	transfer transfer
	member   membership // in the slice of a Waitany
	schedule *Schedule  // of a schedule's request, and of its messages; nil: the request has none
}

// Handle names one use of a request. The zero Handle names none.
type Handle struct {
	r   *Request
	gen uint64
}

// id returns the number by which a peer names this operation: the request and the operation of that
// request. A message about an operation that has ended may arrive late.
func (r *Request) id() uint64 { return uint64(r.index)<<32 | uint64(r.seq) }

func (r *Request) handle() Handle { return Handle{r, r.gen} }

// Encode returns two numbers from which Requests.Decode makes the same handle.
func (h Handle) Encode() (a, b uint64) { return uint64(h.r.index), h.gen }

// OperationError is the error of the operation of a request: not of a wrong use of the request.
type OperationError struct {
	// Context is the context of the operation.
	Context uint32
	Err     error
}

// Error returns the text of the error of the operation.
func (e *OperationError) Error() string { return e.Err.Error() }

// Unwrap returns the error of the operation.
func (e *OperationError) Unwrap() error { return e.Err }

// operationError returns an error as one of the operation of the request. Generalized requests have
// no context.
func (r *Request) operationError(err error) error {
	if err == nil || r.route.Context == noContext {
		return err
	}
	return &OperationError{r.route.Context, err}
}

// endUse ends a use of the request: handles of this use are stale from now on.
func (r *Request) endUse() {
	r.gen++
	r.seq++
	r.epoch = 0
	r.state = free
}

// valid reports whether the handle names a request that can still be waited for. The caller must
// hold the lock.
func (h Handle) valid() bool { return h.r.gen == h.gen && h.r.state != free && h.r.flags&detached == 0 }

// Zero reports whether h is the zero Handle.
func (h Handle) Zero() bool { return h.r == nil }

// Engine returns the engine of a handle, which must not be zero.
func (h Handle) Engine() *Engine { return h.r.e }

// Persistent reports whether h names a persistent request.
func (h Handle) Persistent() bool {
	if h.r == nil {
		return false
	}
	h.r.e.lock()
	defer h.r.e.unlock()
	return h.valid() && h.r.flags&persistent != 0
}
