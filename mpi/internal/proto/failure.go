package proto

import (
	"cmp"
	"fmt"

	"github.com/ibrun/ibrun/perf"
)

// A peer that fails makes the whole engine fail: every operation in progress, and every later one, ends with an error. A peer
// that finalizes, that is, closes its transport in order, is not a failure if this process does not need it any more: then only
// operations with it fail. The same holds for a peer that is lost without having been used: it may have finalized before this
// process connected to it.

// peerClosed ends what needs a process that has closed. links call it.
func (e *Engine) peerClosed(n int32, err error) {
	e.receives.completeRevokedOf(n)
	e.departures.endOperationsWith(n, err)
	e.waiters.rouseAll()
}

// failed must be called when failure.err has been set, which links do if a process was lost. The
// programs of the schedules in progress learn of it before a call returns the error.
func (e *Engine) failed(err error) {
	e.hints.plainSends = false
	for _, slab := range e.requests.slabs {
		for i := range slab {
			r := &slab[i]
			if s := r.schedule; s != nil && s.req == r && r.state == active && !e.contexts.ended.HasEnded(r.route.Context) {
				s.program.Abandoned(err)
			}
		}
	}
	e.waiters.rouseAll()
}

// Abort makes the engine fail with err: every call that waits, and every later call, returns it.
func (e *Engine) Abort(err error) {
	e.lock()
	if e.failure.err == nil {
		e.failure.err = fmt.Errorf("%w: %w", ErrFailed, err)
		e.failed(e.failure.err)
	}
	e.unlock()
}

// LostPeer returns the error to report for an error that says that a process is down, found outside the engine.
func (e *Engine) LostPeer(n int32, err error) error {
	e.lock()
	defer e.unlock()
	return e.links.transportError(n, err)
}

// AllowFinalize makes it no failure from now on if any process finalizes.
func (e *Engine) AllowFinalize() {
	e.lock()
	e.failure.finalizing = true
	e.unlock()
}

// PeerError makes progress once. It returns an error if one of these processes has finalized or left the context, or if the
// engine has failed. If a message could not be sent to a process because it has closed, it counts as finalized, although its own
// messages may still arrive.
func (e *Engine) PeerError(context uint32, peers []int32) error {
	e.lock()
	defer e.unlock()
	e.poller.progress()
	return cmp.Or(e.departures.firstGone(context, peers), e.links.firstRefusing(peers), e.failure.err)
}

// Err makes progress once. It returns the error with which the engine has failed, or nil.
func (e *Engine) Err() error {
	e.lock()
	defer e.unlock()
	e.poller.progress()
	return e.failure.err
}

// WaitMessageOrExit blocks until an unexpected message of a context is there, or more than seen reports have come that a process
// has finalized or left a context. It returns how many have come. sender is the process from which a message is expected.
// Meanwhile the recorder shows op as the current operation.
func (e *Engine) WaitMessageOrExit(op perf.Op, context uint32, sender int32, seen int) (int, error) {
	e.lock()
	defer e.unlock()
	defer e.rec.Configured.Leave(e.rec.Active.Enter(op, -1, -1, 0))
	from := Route{Context: context, Peer: sender, Match: Match{Rank: sender, Tag: AnyTag}}
	g := goal{watch: watch{what: messageOrExit, from: from, value: uint64(seen)}}
	e.waiters.await(&g)
	if !e.waiters.reached(&g) {
		return e.failure.finalized, e.failure.err
	}
	return e.failure.finalized, nil
}

// FinalizedPeer returns an error if one of these processes has finalized or left the context, and no unexpected message of the
// context is left, so that nothing more will come from it.
func (e *Engine) FinalizedPeer(context uint32, peers []int32) error {
	e.lock()
	defer e.unlock()
	if e.failure.finalized == 0 || e.contexts.table(context).FindUnexpected(AnySource, AnyTag) != nil {
		return nil
	}
	return e.departures.firstGone(context, peers)
}
