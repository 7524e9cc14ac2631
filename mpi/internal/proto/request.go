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

// emptyStatus is the status of an operation without a message; cancelledStatus is that of a cancelled operation.
var (
	emptyStatus     = Status{Source: AnySource, Tag: AnyTag}
	cancelledStatus = Status{Source: AnySource, Tag: AnyTag, Cancelled: true}
)

// Mode is the mode of a send, which decides when it completes.
type Mode uint8

// The modes. A standard send may complete before it is matched; a synchronous one may not. A buffered send completes
// immediately, since the message is copied into the attached buffer.
const (
	Standard Mode = iota
	Synchronous
	Buffered
)

// Route is the destination or source of a message. It has four fields, as many as the compiler keeps in registers: a struct of
// five is copied through memory, in overlapping pieces that wait for each other.
type Route struct {
	Context uint32
	Peer    int32 // number of the receiving process, or ProcNull; of a receive, the expected sender, for monitoring only
	Match
	Op perf.Op // the operation that is recorded
}

// Moves returns how many bytes are recorded for a buffer of n bytes: none if the message is to or from ProcNull.
func (r *Route) Moves(n int) int {
	if r.Peer == ProcNull || r.Rank == ProcNull {
		return 0
	}
	return n
}

// Match is what sender and receiver agree on besides the context: the rank, for which a receive may
// have AnySource, and the tag, for which it may have AnyTag.
type Match = wire.Match

// The wildcards of a receive, and the null process: messages to it are complete immediately, receives from it get an empty
// message.
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
	rtrRevoked                            // and RTR_CANCEL
	persistent                            // the request stays allocated, with its arguments
	attachedMem                           // buf is a block of the attached buffer, to be freed
	noted                                 // the request has a note
	inParts                               // data is set
	inSet                                 // member is valid
	hasChannel                            // the request has an entry in channels.open
	hasCallbacks                          // the request has an entry in callbacks
	withdrawing                           // a send: it is to end as cancelled if its message is not matched; see withdraw
	noCancel                              // the program can neither cancel nor free the request
	inSchedule                            // a message of schedule
	contextEnded                          // the context has ended; only of persistent requests
)

// Request is an operation in progress. It belongs to its engine and is reused; a [Handle] says which use is meant.
type Request struct {
	e     *Engine
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
	sleeper *sleeper // a goroutine that waits for the end of the operation, and its successors; nil: none sleeps

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

// requestPool allocates requests in slabs, and finds them by id.
type requestPool struct {
	free       *Request
	slabs      []*[slabSize]Request
	persistent int // number of persistent requests
}

const slabSize = 64

// take returns an active request of the engine e. The caller must hold the lock, as for everything in this file.
func (p *requestPool) take(e *Engine) *Request {
	r := p.free
	if r == nil {
		r = p.grow(e)
	}
	p.free = r.next
	r.state = active
	return r
}

// grow adds a slab of requests to the free list and returns the first of the list.
func (p *requestPool) grow(e *Engine) *Request {
	slab := new([slabSize]Request)
	base := len(p.slabs) * slabSize
	p.slabs = append(p.slabs, slab)
	for i := slabSize - 1; i >= 0; i-- {
		r := &slab[i]
		r.e, r.index, r.gen, r.seq, r.word = e, uint32(base+i), 1, 1, -1
		r.posted.Init(r)
		r.out.req = r
		r.transfer.req = r
		r.next, p.free = p.free, r
	}
	return p.free
}

// put returns a request to the free list.
func (p *requestPool) put(r *Request) { r.next, p.free = p.free, r }

// byID returns the active request that a peer names by its id. It returns nil if there is none, which no correct peer causes.
func (p *requestPool) byID(id uint64) *Request {
	i := int(id >> 32)
	if i/slabSize >= len(p.slabs) {
		return nil
	}
	r := &p.slabs[i/slabSize][i%slabSize]
	if r.state != active || r.seq != uint32(id) {
		return nil
	}
	return r
}

// activeIn reports whether a request of a context is active that is partitioned, or one that is not. A partitioned request that
// was not started is not active, although its setup may be.
func (p *requestPool) activeIn(context uint32, partitioned bool) bool {
	for _, slab := range p.slabs {
		for i := range slab {
			r := &slab[i]
			if r.state == active && r.route.Context == context && r.isPartitioned() == partitioned && !r.isIdleSetup() {
				return true
			}
		}
	}
	return false
}

// id returns the number by which a peer names this operation: the request and the operation of that request. A message about an
// operation that has ended may arrive late.
func (r *Request) id() uint64 { return uint64(r.index)<<32 | uint64(r.seq) }

func (r *Request) handle() Handle { return Handle{r, r.gen} }

// Encode returns two numbers from which DecodeHandle makes the same handle.
func (h Handle) Encode() (a, b uint64) { return uint64(h.r.index), h.gen }

// DecodeHandle returns the handle with these numbers, which must be those of a handle of this engine.
func (e *Engine) DecodeHandle(a, b uint64) Handle {
	e.lock()
	defer e.unlock()
	return Handle{&e.requests.slabs[a/slabSize][a%slabSize], b}
}

// complete completes a request.
func (e *Engine) complete(r *Request, err error) {
	r.state = done
	if err != nil {
		r.err = r.operationError(err) // nil since the operation began
	}
	if r.sleeper != nil || e.waiters.general != 0 {
		e.waiters.requestEnded(r)
	}
	if r.flags != 0 {
		e.completeFlags(r)
	} else {
		r.buf = nil
	}
}

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

// operationError returns an error as one of the operation of the request. Generalized requests have no context.
func (r *Request) operationError(err error) error {
	if err == nil || r.route.Context == noContext {
		return err
	}
	return &OperationError{r.route.Context, err}
}

// completeFlags does what the flags of a completed request say.
func (e *Engine) completeFlags(r *Request) {
	r.flags &^= withdrawing
	if r.flags&inSchedule != 0 {
		r.messageEnded()
	}
	if r.flags&rtrSent != 0 {
		r.releaseRTR()
	}
	if r.flags&hasChannel != 0 {
		e.closeChannel(r)
	}
	if r.flags&persistent == 0 {
		r.buf = nil
		if r.flags&inParts != 0 {
			r.releaseData()
		}
	}
	switch {
	case r.flags&detached != 0:
		e.release(r)
	case r.flags&inSet != 0:
		r.member.set.list(r)
	}
}

// collect returns the result of a completed request and ends this use of it.
func (e *Engine) collect(r *Request) (Status, error) {
	st, err := r.status, r.err
	if r.flags&hasCallbacks != 0 {
		err = e.collectGrequest(r)
		return r.status, err
	}
	if r.flags&persistent != 0 {
		if r.flags&inSet != 0 {
			r.member.set.unlist(r)
		}
		r.state = inactive
		r.seq++
	} else {
		e.release(r)
	}
	return st, err
}

// release frees a request. Handles of this use are stale from now on.
func (e *Engine) release(r *Request) {
	if r.flags&(attachedMem|inParts|persistent) != 0 {
		r.releaseOther()
	}
	if r.flags&inSet != 0 {
		r.member.set.remove(r)
	}
	r.endUse()
	if r.buf != nil || r.err != nil { // usually neither is set, and storing pointers has a cost
		r.buf, r.err = nil, nil
	}
	r.flags = 0
	e.requests.put(r)
}

// releaseOther releases the block of the attached buffer and the description of data in parts, and counts a persistent request.
func (r *Request) releaseOther() {
	if r.flags&persistent != 0 {
		r.e.requests.persistent--
	}
	if r.flags&attachedMem != 0 {
		r.e.attached.Free(r.block)
	}
	if r.flags&inParts != 0 {
		r.releaseData()
	}
}

// endUse ends a use of the request: handles of this use are stale from now on.
func (r *Request) endUse() {
	r.gen++
	r.seq++
	r.epoch = 0
	r.state = free
}

// valid reports whether the handle names a request that can still be waited for. The caller must hold the lock.
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
