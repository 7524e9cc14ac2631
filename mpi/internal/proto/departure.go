package proto

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ibrun/ibrun/fabric"
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

// watchDelay is how long an operation waits before it sends WATCH. A wait that is that long costs far more than a message.
const watchDelay = 100 * time.Millisecond

// IsWatch reports whether a message that begins with a header is WATCH, or LEFT, which answers it: a process sends WATCH because
// time has passed, and not because the program does something.
func IsWatch(header []byte) bool {
	k := wire.Kind(header[0])
	return k == wire.Watch || k == wire.Left
}

// confirmTimeout bounds the wait for the transport's report that a process has closed, when the launcher has reported it. The
// transport's report is preferred because it follows all messages.
const confirmTimeout = 2 * time.Second

// departures records which contexts this process and others have left.
type departures struct {
	left     map[uint32]bool    // contexts that this process has left, and that have not ended
	watchers map[uint32][]int32 // by context: the processes to which LEFT must be sent
	watched  map[member]bool    // the processes to which WATCH was sent
	gone     map[member]bool    // the processes that have answered with LEFT: whether all free the communicator
	members  func(context uint32) []int32
	closed   bool // the engine is closed
	failed   bool // an operation may have failed because a process had left

	timerRuns bool      // startWatchTimer has started a timer
	probed    Route     // of the last probe that did not block
	idlePolls uint      // number of calls of idlePoll
	nextIdle  time.Time // when idlePoll sends WATCH; zero: after it has set this
}

// member is a process in a context.
type member struct {
	context uint32
	peer    int32
}

func (d *departures) init(members func(uint32) []int32) {
	*d = departures{left: map[uint32]bool{}, watchers: map[uint32][]int32{}, watched: map[member]bool{},
		gone: map[member]bool{}, members: members, probed: Route{Peer: ProcNull}}
	if members == nil {
		d.members = func(uint32) []int32 { return nil }
	}
}

// forget removes what is known about others in a context that has ended here.
func (d *departures) forget(context uint32) {
	for m := range d.watched {
		if m.context == context {
			delete(d.watched, m)
			delete(d.gone, m)
		}
	}
	delete(d.left, context)
	if d.probed.Context == context {
		d.probed = Route{Peer: ProcNull}
	}
}

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

var errLeftContext = errors.New("it takes part in no operation of this communicator any more: " +
	"it finalizes, has closed the session, or a collective has failed there")

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
	if e.peer(n).finalized == nil {
		e.sendControl(n, wire.Envelope{Kind: wire.Left, Context: context}, freedWord(e.contexts.ended.IsFreed(context)))
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
	return gone || e.hasFinalized(n)
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

// watchIfDue sends WATCH for all operations that wait, if the calling goroutine has waited for g for long enough. It returns how
// long it still has to wait for that; 0 if WATCH was sent. The caller must check the goal again afterwards.
func (e *Engine) watchIfDue(g *goal) time.Duration {
	if e.failure.departed {
		e.endHopeless() // receives that were posted after LEFT
	}
	if g.watched {
		if g.from.Rank == AnySource {
			e.watchRoute(g.from, g.what) // the next process, if the one before has left
		}
		return 0
	}
	now := time.Now()
	if g.since.IsZero() {
		g.since = now
	}
	if left := watchDelay - now.Sub(g.since); left > 0 {
		return left
	}
	g.watched = true
	e.watchAll()
	e.watchRoute(g.from, g.what)
	return 0
}

// startWatchTimer sends WATCH later for a goroutine that is about to be parked. The one that sleeps on the transport
// may have begun to sleep before it, without a time limit.
func (e *Engine) startWatchTimer(left time.Duration) {
	d := &e.departures
	if left == 0 || d.timerRuns {
		return
	}
	d.timerRuns = true
	time.AfterFunc(left, func() {
		e.lock()
		defer e.unlock()
		d.timerRuns = false
		if d.closed {
			return
		}
		e.watchAll()
		if len(e.blocked) != 0 {
			e.waiters.rouseSleeper()
		}
	})
}

// idlePoll must be called when a goroutine that does not block has polled in vain. It does from time to time what watchIfDue does
// for one that blocks.
func (e *Engine) idlePoll() {
	d := &e.departures
	if d.idlePolls++; d.idlePolls%idlePollsPerCheck != 0 {
		return
	}
	now := time.Now()
	if e.failure.departed {
		e.endHopeless()
	}
	if d.nextIdle.IsZero() {
		d.nextIdle = now.Add(watchDelay)
	} else if now.After(d.nextIdle) {
		d.nextIdle = time.Time{}
		e.watchAll()
		e.watchRoute(d.probed, messageMatches)
	}
}

// idlePollsPerCheck is the number of polls in vain for which the clock is read once.
const idlePollsPerCheck = 64

// watchAll sends WATCH for all receives that are posted, and for the goroutines that sleep.
func (e *Engine) watchAll() {
	e.watchPolled()
	for _, slab := range e.requests.slabs {
		for i := range slab {
			if r := &slab[i]; r.state == active && !r.send && r.posted.Posted() {
				e.watchRoute(r.route, messageMatches)
			}
		}
	}
	for _, x := range e.waiters.watchers {
		e.watchRoute(x.watch.from, x.watch.what)
	}
}

// watchRoute sends WATCH to the process of a route. With AnySource it sends WATCH to one process at a time, because one that has
// not left is sufficient.
func (e *Engine) watchRoute(from Route, what goalKind) {
	switch what {
	case wordReached, messageMatches, messageOrExit, segmentMapped:
	default:
		return
	}
	if from.Rank != AnySource {
		e.watch(member{from.Context, from.Peer})
		return
	}
	for _, n := range e.departures.members(from.Context) {
		if int(n) != e.self && !e.isGone(from.Context, n) {
			e.watch(member{from.Context, n})
			return
		}
	}
}

// watch sends WATCH to a process, once for each context.
func (e *Engine) watch(m member) {
	d := &e.departures
	if m.peer < 0 || int(m.peer) >= len(e.peers) || int(m.peer) == e.self || e.failure.err != nil || d.watched[m] ||
		e.isGone(m.context, m.peer) {
		return
	}
	d.watched[m] = true
	if e.connect(m.peer) == nil { // otherwise an operation that needs the process reports the error, or the engine has failed
		e.sendControl(m.peer, wire.Envelope{Kind: wire.Watch, Context: m.context})
	}
}

// Watch sends WATCH to a process for a context.
func (e *Engine) Watch(context uint32, n int32) {
	e.lock()
	defer e.unlock()
	e.watch(member{context, n})
}

// ProcessesLeft must be called when the launcher reports that processes have left the job. A process that this one needs is
// treated as if its transport had closed, after all that it has sent has arrived.
func (e *Engine) ProcessesLeft(ranks []int) {
	e.lock()
	defer e.unlock()
	for _, rank := range ranks {
		if rank < 0 || rank >= len(e.peers) || rank == e.self || e.departures.closed {
			continue
		}
		n := int32(rank)
		p := e.peer(n)
		if p.finalized != nil || p.announced {
			continue
		}
		e.failure.finalized++
		if e.failure.needed == nil || e.failure.needed(n, true) {
			e.confirmLeft(n)
		}
		p.announced = true
		e.dropMessagesTo(n)
	}
	e.waiters.rouseAll()
}

// gone returns the error of operations with process n if it has finalized, as far as this process or the launcher knows, or nil.
func (p *peer) gone(n int32) error {
	if p.finalized == nil && p.announced {
		return &failureError{n, errAnnounced}
	}
	return p.finalized
}

var errAnnounced = fmt.Errorf("%w, as the launcher reports", fabric.ErrPeerClosed)

// dropMessagesTo drops the messages to a process that the launcher has reported. Its own messages may still arrive.
func (e *Engine) dropMessagesTo(n int32) {
	p := e.peer(n)
	for p.head != nil {
		o := p.head
		p.head, o.queued = o.next, false
		e.rec.Dropped(o.kind())
		e.dropMessage(o, p.gone(n))
	}
	p.updateMaxEager()
}

// confirmLeft connects to a process that has left, so that its transport reports it, in order. If that takes long it is treated
// as reported.
func (e *Engine) confirmLeft(n int32) {
	if e.connect(n) == nil {
		e.sendControl(n, wire.Envelope{Kind: wire.Watch})
	}
	time.AfterFunc(confirmTimeout, func() {
		e.lock()
		defer e.unlock()
		if !e.departures.closed {
			e.fail(n, errAnnounced)
		}
	})
}
