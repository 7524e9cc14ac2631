package proto

import (
	"slices"
	"time"

	"github.com/ibrun/ibrun/mpi/internal/proto/internal/ended"
	"github.com/ibrun/ibrun/mpi/internal/wire"
)

// A process leaves a context when it takes part in no operation of it any more: it frees the communicator or finalizes, or a
// collective has failed there. What others still expect of it in that context then fails, and does not hang.
//
// A process does not report this unasked: it would cost a message to every peer of every communicator. An operation that has
// waited for some time sends WATCH to the process that it waits for. That process answers with LEFT when it leaves the context,
// or immediately if it has left. LEFT follows all other messages of the process, so nothing that it has sent is missed. To send
// WATCH connects the two processes, so that the transport reports a process that has closed or was killed.
//
// A send needs no WATCH. A message whose sender waits for its receiver, an RTS or a synchronous one, is refused.

// confirmTimeout bounds the wait for the transport's report that a process has closed, when the launcher has reported it. The
// transport's report is preferred because it follows all messages.
const confirmTimeout = 2 * time.Second

// departureErr returns the error of an operation that needs a process which has left, and records that there is one. If all
// processes free the communicator, this one is about to do so as well.
func (e *Engine) departureErr(n int32, freed bool) error {
	e.departures.failed = true
	if freed {
		return ErrFreed
	}
	e.rec.Configured.LostPeer()
	return &failureError{n, errLeftContext}
}

// LeaveContext must be called when this process will take part in no operation of a context any more, before EndContext. Messages
// in the context that wait for this process are refused, now and from now on.
func (e *Engine) LeaveContext(context uint32) {
	e.lock()
	defer e.unlock()
	e.leaveContext(context)
}

func (e *Engine) leaveContext(context uint32) {
	if e.departures.left[context] || e.contexts.ended.IsStale(context) || e.failure.err != nil {
		return
	}
	e.departures.left[context] = true
	e.contexts.table(context).DrainMessages(func(m *unexpectedMessage) {
		e.noteDropped(m.v, m.note)
		e.refuseUnexpected(m, false)
	})
	e.reportLeft(context)
}

// hasLeft reports whether this process has left a context.
func (e *Engine) hasLeft(context uint32) bool {
	return e.departures.left[context] || e.contexts.ended.IsStale(context)
}

// reportLeft sends LEFT to the processes that watch a context which this process has left, or an earlier one with the same
// number.
func (e *Engine) reportLeft(context uint32) {
	for x, watchers := range e.departures.watchers {
		if ended.Number(x) != ended.Number(context) || !e.hasLeft(x) {
			continue
		}
		delete(e.departures.watchers, x)
		for _, n := range watchers {
			e.sendLeft(n, x)
		}
	}
}

func (e *Engine) sendLeft(n int32, context uint32) {
	if e.links.peer(n).finalized == nil {
		e.links.sendControl(n, wire.Envelope{Kind: wire.Left, Context: context}, freedWord(e.contexts.ended.IsFreed(context)))
	}
}

// handleWatch handles WATCH.
func (e *Engine) handleWatch(peer int32, context uint32) {
	d := &e.departures
	switch {
	case e.hasLeft(context):
		e.sendLeft(peer, context)
	case !slices.Contains(d.watchers[context], peer):
		d.watchers[context] = append(d.watchers[context], peer)
	}
}

// handleLeft handles LEFT. It ignores an answer that is not expected any more.
func (e *Engine) handleLeft(peer int32, context uint32, w [5]uint64) bool {
	m := member{context, peer}
	if w[0] > 1 {
		return false
	}
	if e.departures.watched[m] {
		e.departures.gone[m], e.failure.departed = w[0] == 1, true
		e.failure.finalized++
		e.endHopeless()
		e.waiters.rouseAll()
	}
	return true
}

// handleRefuse handles REFUSE.
func (e *Engine) handleRefuse(peer int32, w [5]uint64) bool {
	r := e.requests.byID(w[0])
	if r == nil || !r.awaitsPeer(peer) || r.transfer.running || w[1] > 1 {
		return false
	}
	r.releaseSend()
	if r.flags&withdrawing != 0 {
		r.status = cancelledStatus // as it was to be: its message was not matched
		e.complete(r, nil)
	} else {
		e.complete(r, e.departureErr(peer, w[1] == 1 || e.contexts.ended.IsFreed(r.route.Context)))
	}
	return true
}

// isGone reports whether a process takes part in no operation of a context any more.
func (e *Engine) isGone(context uint32, n int32) bool {
	_, gone := e.departures.gone[member{context, n}]
	return gone || e.links.hasFinalized(n)
}

// departureError returns the error of an operation that waits for a message, if the processes that could send it have left; nil
// if it may still come.
func (e *Engine) departureError(from Route) error {
	if from.Peer >= 0 && from.Rank != AnySource {
		if int(from.Peer) != e.self && e.isGone(from.Context, from.Peer) {
			return e.departureErr(from.Peer, e.departures.gone[member{from.Context, from.Peer}])
		}
		return nil
	}
	if from.Rank != AnySource {
		return nil
	}
	last := int32(-1)
	for _, n := range e.departures.members(from.Context) {
		if int(n) == e.self || !e.isGone(from.Context, n) { // another goroutine of this process may send as well
			return nil
		}
		last = n
	}
	if last < 0 {
		return nil
	}
	return e.departureErr(last, e.departures.gone[member{from.Context, last}])
}

// isHopeless reports whether a goal cannot be reached because of processes that have left, and sets g.err then. Requests are
// completed by endHopeless instead.
func (e *Engine) isHopeless(g *goal) bool {
	switch g.what {
	case wordReached, messageMatches, segmentMapped:
		if g.err == nil {
			g.err = e.departureError(g.from)
		}
	}
	return g.err != nil && !g.reached(e)
}

// endHopeless completes the receives whose messages cannot come any more.
func (e *Engine) endHopeless() {
	for _, slab := range e.requests.slabs {
		for i := range slab {
			r := &slab[i]
			if r.state != active || r.send || !r.posted.Posted() || r.flags&rtrRevoked != 0 {
				continue
			}
			if err := e.departureError(r.route); err != nil {
				r.endReceive(err)
			} else if r.route.Rank == AnySource {
				e.watchRoute(r.route, messageMatches) // the next process, if the one before has left
			}
		}
	}
}

// endReceive completes a posted receive with an error.
func (r *Request) endReceive(err error) {
	if r.flags&rtrSent != 0 {
		r.revokeRTR(err)
		return
	}
	r.e.contexts.table(r.route.Context).RemovePosted(&r.posted)
	r.e.complete(r, err)
}

// endOperationsWith completes the operations that need a process which has finalized. All that it has sent has arrived.
func (e *Engine) endOperationsWith(n int32, err error) {
	e.failure.departed, e.departures.failed = true, true
	for _, slab := range e.requests.slabs {
		for i := range slab {
			switch r := &slab[i]; {
			case r.state != active || r.transfer.running:
			case r.send && r.awaitsPeer(n):
				r.releaseSend()
				if e.contexts.ended.IsFreed(r.route.Context) {
					e.complete(r, ErrFreed) // the process has not received the message before it freed the communicator
				} else {
					e.rec.Configured.LostPeer()
					e.complete(r, err)
				}
			case !r.send && r.transfer.peer == n && r.transfer.state == transferCopying:
				r.finishTransfer(err)
			}
		}
	}
	e.endHopeless()
}

// ProcessesLeft must be called when the launcher reports that processes have left the job. A process that this one needs is
// treated as if its transport had closed, after all that it has sent has arrived.
func (e *Engine) ProcessesLeft(ranks []int) {
	e.lock()
	defer e.unlock()
	for _, rank := range ranks {
		if rank < 0 || rank >= len(e.links.peers) || rank == e.self || e.departures.closed {
			continue
		}
		n := int32(rank)
		p := e.links.peer(n)
		if p.finalized != nil || p.announced {
			continue
		}
		e.failure.finalized++
		if e.failure.needed == nil || e.failure.needed(n, true) {
			e.confirmLeft(n)
		}
		p.announced = true
		e.links.dropMessagesTo(n)
	}
	e.waiters.rouseAll()
}

// confirmLeft connects to a process that has left, so that its transport reports it, in order. If that takes long it is treated
// as reported.
func (e *Engine) confirmLeft(n int32) {
	if e.links.connect(n) == nil {
		e.links.sendControl(n, wire.Envelope{Kind: wire.Watch})
	}
	time.AfterFunc(confirmTimeout, func() {
		e.lock()
		defer e.unlock()
		if !e.departures.closed {
			e.links.fail(n, errAnnounced)
		}
	})
}
