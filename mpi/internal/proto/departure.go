package proto

import (
	"errors"
	"slices"
	"time"

	"github.com/ibrun/ibrun/mpi/internal/proto/internal/ended"
	"github.com/ibrun/ibrun/mpi/internal/proto/internal/record"
	"github.com/ibrun/ibrun/mpi/internal/wire"
)

// A process leaves a context when it takes part in no operation of it any more: it frees the
// communicator or finalizes, or a collective has failed there. What others still expect of it in
// that context then fails, and does not hang.
//
// A process does not report this unasked: it would cost a message to every peer of every
// communicator. An operation that has waited for some time sends Watch to the process that it waits
// for. That process answers with Left when it leaves the context, or immediately if it has left.
// Left follows all other messages of the process, so nothing that it has sent is missed. To send
// Watch connects the two processes, so that the transport reports a process that has closed or was
// killed.
//
// A send needs no Watch. A message whose sender waits for its receiver, an RTS or a synchronous
// one, is refused.

// departures records which contexts this process and others have left. It sends Watch and Left, and
// completes the requests that need a process which has left (hopeless.go). The goroutines that wait
// for something else are woken, and look whether it can still come.
type departures struct {
	links    *links
	sends    *sends
	receives *receives
	waiters  *waiters
	polled   *polledSchedules // whose processes are watched as well
	ended    *ended.Contexts
	rec      *record.Recording

	left     map[uint32]bool    // contexts that this process has left, and that have not ended
	watchers map[uint32][]int32 // by context: the processes to which Left must be sent
	watched  map[member]bool    // the processes to which Watch was sent
	gone     map[member]bool    // those that have sent Left: whether all free the communicator
	members  func(context uint32) []int32
	closed   bool // the engine is closed
	failed   bool // an operation may have failed because a process had left

	timerRuns bool      // startWatchTimer has started a timer
	probed    Route     // of the last probe that did not block
	idlePolls uint      // number of calls of idlePoll
	nextIdle  time.Time // when idlePoll sends Watch; zero: after it has set this
}

// member is a process in a context.
type member struct {
	context uint32
	peer    int32
}

// init sets the state in which no process has left. members is Config.Members.
func (d *departures) init(members func(uint32) []int32) {
	d.left, d.watchers = map[uint32]bool{}, map[uint32][]int32{}
	d.watched, d.gone = map[member]bool{}, map[member]bool{}
	d.probed = Route{Peer: ProcNull}
	if d.members = members; members == nil {
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

var errLeftContext = errors.New("it takes part in no operation of this communicator any more: " +
	"it finalizes, has closed the session, or a collective has failed there")

// setLeft records that this process leaves a context. It reports false if it has left before, or
// the engine has failed. reportLeft must follow.
func (d *departures) setLeft(context uint32) bool {
	if d.hasLeft(context) || d.links.failure.err != nil {
		return false
	}
	d.left[context] = true
	return true
}

// hasLeft reports whether this process has left a context.
func (d *departures) hasLeft(context uint32) bool {
	return d.left[context] || d.ended.IsStale(context)
}

// reportLeft sends Left to the processes that watch a context which this process has left, or an
// earlier one with the same number.
func (d *departures) reportLeft(context uint32) {
	for x, watchers := range d.watchers {
		if ended.Number(x) != ended.Number(context) || !d.hasLeft(x) {
			continue
		}
		delete(d.watchers, x)
		for _, n := range watchers {
			d.sendLeft(n, x)
		}
	}
}

func (d *departures) sendLeft(n int32, context uint32) {
	if d.links.peer(n).finalized == nil {
		d.links.sendControl(n, wire.Envelope{Kind: wire.Left, Context: context}, freedWord(d.ended.IsFreed(context)))
	}
}

// handleWatch handles Watch.
func (d *departures) handleWatch(peer int32, context uint32) {
	switch {
	case d.hasLeft(context):
		d.sendLeft(peer, context)
	case !slices.Contains(d.watchers[context], peer):
		d.watchers[context] = append(d.watchers[context], peer)
	}
}

// handleLeft handles Left of a process, whose word says whether all processes free the
// communicator. It returns false for a message that no correct process sends. An answer may arrive
// after the context has been forgotten: that one is ignored.
func (d *departures) handleLeft(peer int32, context uint32, w [5]uint64) bool {
	m := member{context, peer}
	if w[0] > 1 || !d.watched[m] {
		return w[0] <= 1
	}
	d.gone[m], d.links.failure.departed = w[0] == 1, true
	d.links.failure.finalized++
	d.endHopeless()
	d.waiters.rouseAll()
	return true
}

// watchRoute sends Watch to the process of a route. With AnySource it sends Watch to one process at
// a time, because one that has not left is sufficient.
func (d *departures) watchRoute(from Route) {
	if from.Rank != AnySource {
		d.watch(member{from.Context, from.Peer})
		return
	}
	for _, n := range d.members(from.Context) {
		if int(n) != d.links.self && !d.isGone(from.Context, n) {
			d.watch(member{from.Context, n})
			return
		}
	}
}

// watch sends Watch to a process, once for each context.
func (d *departures) watch(m member) {
	l := d.links
	if m.peer < 0 || int(m.peer) >= len(l.peers) || int(m.peer) == l.self || l.failure.err != nil || d.watched[m] ||
		d.isGone(m.context, m.peer) {
		return
	}
	d.watched[m] = true
	// If connect fails, an operation that needs the process reports the error, or the engine has
	// failed.
	if l.connect(m.peer) == nil {
		l.sendControl(m.peer, wire.Envelope{Kind: wire.Watch, Context: m.context})
	}
}

// isGone reports whether a process takes part in no operation of a context any more.
func (d *departures) isGone(context uint32, n int32) bool {
	_, gone := d.gone[member{context, n}]
	return gone || d.links.hasFinalized(n)
}

// errorOf returns the error of an operation that waits for a message, if the processes that could
// send it have left; nil if it may still come.
func (d *departures) errorOf(from Route) error {
	if from.Peer >= 0 && from.Rank != AnySource {
		if int(from.Peer) != d.links.self && d.isGone(from.Context, from.Peer) {
			return d.err(from.Peer, d.gone[member{from.Context, from.Peer}])
		}
		return nil
	}
	if from.Rank != AnySource {
		return nil
	}
	last := int32(-1)
	for _, n := range d.members(from.Context) {
		// If this process is a member, another goroutine of it may send.
		if int(n) == d.links.self || !d.isGone(from.Context, n) {
			return nil
		}
		last = n
	}
	if last < 0 {
		return nil
	}
	return d.err(last, d.gone[member{from.Context, last}])
}

// firstGone returns the error of the first of these processes that has finalized or left the
// context, as far as this process or the launcher knows, or nil.
func (d *departures) firstGone(context uint32, peers []int32) error {
	for _, n := range peers {
		if p := d.links.peers[n]; d.links.hasFinalized(n) || p != nil && p.announced {
			d.rec.Configured.LostPeer()
			return d.links.peer(n).gone(n)
		}
		if freed, gone := d.gone[member{context, n}]; gone {
			return d.err(n, freed)
		}
	}
	return nil
}

// err returns the error of an operation that needs a process which has left, and records that there
// is one. If all processes free the communicator, this one is about to do so as well.
func (d *departures) err(n int32, freed bool) error {
	d.failed = true
	if freed {
		return ErrFreed
	}
	d.rec.Configured.LostPeer()
	return &failureError{n, errLeftContext}
}
