package proto

import (
	"github.com/ibrun/ibrun/mpi/internal/proto/internal/attached"
	"github.com/ibrun/ibrun/mpi/internal/proto/internal/ended"
	"github.com/ibrun/ibrun/mpi/internal/proto/internal/lock"
	"github.com/ibrun/ibrun/mpi/internal/proto/internal/record"
)

// Requests are the requests of an engine. It allocates them in slabs, finds them by id, and
// completes and releases them. Its methods know no transport. The exported ones are the calls for
// requests of all kinds; those that start operations are methods of the engine.
type Requests struct {
	mu           *lock.Mutex // of the engine
	rec          *record.Recording
	waiters      *waiters
	poller       *poller
	attached     *attached.Buffer
	contexts     *ended.Contexts
	engine       *Engine        // what Handle.Engine returns
	messageEnded func(*Request) // is Schedules.messageEnded
	// cancel cancels an operation in progress, if that is possible; see Cancel.
	cancel func(*Request)

	free       *Request // free list
	slabs      []*[slabSize]Request
	parts      *parts   // free list
	persistent int      // number of persistent requests
	sets       waitSets // of calls such as Waitany
	channels   channels
	callbacks  map[*Request]Callbacks // of requests with the flag hasCallbacks
}

// Requests returns the requests of the engine.
func (e *Engine) Requests() *Requests { return &e.requests }

const slabSize = 64

// take returns an active request. It has no data and no error, and no flags but inSet, which
// anyWait.take may have set. Its status and its route are those of an earlier use.
func (q *Requests) take() *Request {
	r := q.free
	if r == nil {
		r = q.grow()
	}
	q.free = r.next
	r.state = active
	return r
}

// grow adds a slab of requests to the free list and returns the first of the list.
func (q *Requests) grow() *Request {
	slab := new([slabSize]Request)
	base := len(q.slabs) * slabSize
	q.slabs = append(q.slabs, slab)
	for i := slabSize - 1; i >= 0; i-- {
		r := &slab[i]
		r.e, r.index, r.gen, r.seq, r.word = q.engine, uint32(base+i), 1, 1, -1
		r.posted.Init(r)
		r.out.req = r
		r.transfer.req = r
		r.next, q.free = q.free, r
	}
	return q.free
}

// put returns a request to the free list.
func (q *Requests) put(r *Request) { r.next, q.free = q.free, r }

// byID returns the active request that a peer names by its id. It returns nil if there is none,
// which no correct peer causes.
func (q *Requests) byID(id uint64) *Request {
	i := int(id >> 32)
	if i/slabSize >= len(q.slabs) {
		return nil
	}
	r := &q.slabs[i/slabSize][i%slabSize]
	if r.state != active || r.seq != uint32(id) {
		return nil
	}
	return r
}

// Decode returns the handle with these numbers, which must be those of a handle of this engine.
func (q *Requests) Decode(a, b uint64) Handle {
	q.mu.Lock()
	defer q.mu.Unlock()
	return Handle{&q.slabs[a/slabSize][a%slabSize], b}
}

// activeIn reports whether a request of a context is active that is partitioned, or one that is
// not. A partitioned request that was not started is not active, although its setup may be.
func (q *Requests) activeIn(context uint32, partitioned bool) bool {
	for _, slab := range q.slabs {
		for i := range slab {
			r := &slab[i]
			if r.state == active && r.route.Context == context && r.isPartitioned() == partitioned && !r.isIdleSetup() {
				return true
			}
		}
	}
	return false
}

// makePersistent makes a new request a persistent one, which is not active.
func (q *Requests) makePersistent(r *Request) {
	r.state = inactive
	r.flags |= persistent
	q.persistent++
	if q.contexts.HasEnded(r.route.Context) { // another goroutine has freed the communicator
		r.flags |= contextEnded
	}
}

// complete completes a request.
func (q *Requests) complete(r *Request, err error) {
	r.state = done
	if err != nil {
		r.err = r.operationError(err) // nil since the operation began
	}
	if r.sleeper != nil || q.waiters.general != 0 {
		q.waiters.rouseFor(r)
	}
	if r.flags != 0 {
		q.completeFlags(r)
	} else {
		r.buf = nil
	}
}

// completeFlags does what the flags of a completed request say.
func (q *Requests) completeFlags(r *Request) {
	r.flags &^= withdrawing
	if r.flags&inSchedule != 0 {
		q.messageEnded(r)
	}
	if r.flags&rtrSent != 0 {
		r.releaseRTR()
	}
	if r.flags&hasChannel != 0 {
		q.closeChannel(r)
	}
	if r.flags&persistent == 0 {
		r.buf = nil
		if r.flags&inParts != 0 {
			q.releaseData(r)
		}
	}
	switch {
	case r.flags&detached != 0:
		q.release(r)
	case r.flags&inSet != 0:
		r.member.set.list(r)
	}
}

// collect returns the result of a completed request and ends this use of it.
func (q *Requests) collect(r *Request) (Status, error) {
	st, err := r.status, r.err
	if r.flags&hasCallbacks != 0 {
		err = q.collectGrequest(r)
		return r.status, err
	}
	if r.flags&persistent != 0 {
		if r.flags&inSet != 0 {
			r.member.set.unlist(r)
		}
		r.state = inactive
		r.seq++
	} else {
		q.release(r)
	}
	return st, err
}

// release frees a request. Handles of this use are stale from now on.
func (q *Requests) release(r *Request) {
	if r.flags&(attachedMem|inParts|persistent) != 0 {
		q.releaseOther(r)
	}
	if r.flags&inSet != 0 {
		r.member.set.remove(r)
	}
	r.endUse()
	if r.buf != nil || r.err != nil { // usually neither is set, and storing pointers has a cost
		r.buf, r.err = nil, nil
	}
	r.flags = 0
	q.put(r)
}

// releaseOther releases the block of the attached buffer and the description of data in parts, and
// counts a persistent request.
func (q *Requests) releaseOther(r *Request) {
	if r.flags&persistent != 0 {
		q.persistent--
	}
	if r.flags&attachedMem != 0 {
		q.attached.Free(r.block)
	}
	if r.flags&inParts != 0 {
		q.releaseData(r)
	}
}
