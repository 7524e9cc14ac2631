package proto

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/perf"
)

// A peer that fails makes the whole engine fail: every operation in progress, and every later one, ends with an error. A peer
// that finalizes, that is, closes its transport in order, is not a failure if this process does not need it any more: then only
// operations with it fail. The same holds for a peer that is lost without having been used: it may have finalized before this
// process connected to it.

// fail records that a peer has failed or finalized; see the comment above. n is -1 if the transport of this process has failed.
func (e *Engine) fail(n int32, err error) {
	if e.failure.err != nil || n >= 0 && e.hasFinalized(n) {
		return
	}
	silent := n >= 0 && e.peers[n] == nil && errors.Is(err, fabric.ErrPeerClosed)
	err = &failureError{n, err}
	f := &e.failure
	if n >= 0 && f.mayLeave(n, err) {
		if silent {
			f.setClosed(n, len(e.peers))
		} else {
			p := e.peer(n)
			p.finalized = err
			p.updateMaxEager()
		}
		f.finalized++
		e.completeRevokedOf(n)
		e.endOperationsWith(n, err)
	} else {
		e.setFailed(err)
		e.rec.Configured.LostPeer()
	}
	e.waiters.rouseAll()
}

// setFailed makes the engine fail. The programs of the schedules in progress learn of it before a call returns the error.
func (e *Engine) setFailed(err error) {
	e.failure.err, e.hints.plainSends = err, false
	for _, slab := range e.requests.slabs {
		for i := range slab {
			r := &slab[i]
			if s := r.schedule; s != nil && s.req == r && r.state == active && !e.contexts.ended.HasEnded(r.route.Context) {
				s.program.Abandoned(err)
			}
		}
	}
}

// hasFinalized reports whether a process has finalized.
func (e *Engine) hasFinalized(n int32) bool {
	if p := e.peers[n]; p != nil {
		return p.finalized != nil
	}
	return e.failure.hasClosed(n)
}

// Abort makes the engine fail with err: every call that waits, and every later call, returns it.
func (e *Engine) Abort(err error) {
	e.lock()
	if e.failure.err == nil {
		e.setFailed(fmt.Errorf("%w: %w", ErrFailed, err))
	}
	e.waiters.rouseAll()
	e.unlock()
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
	e.progress()
	return cmp.Or(e.firstGone(context, peers), e.firstRefusing(peers), e.failure.err)
}

// Err makes progress once. It returns the error with which the engine has failed, or nil.
func (e *Engine) Err() error {
	e.lock()
	defer e.unlock()
	e.progress()
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
	g := goal{what: messageOrExit, from: from, value: uint64(seen)}
	e.await(&g)
	if !g.reached(e) {
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
	return e.firstGone(context, peers)
}

// firstGone returns the error of the first of these processes that has finalized or left the context, as far as this process or
// the launcher knows, or nil.
func (e *Engine) firstGone(context uint32, peers []int32) error {
	for _, n := range peers {
		if p := e.peers[n]; e.hasFinalized(n) || p != nil && p.announced {
			e.rec.Configured.LostPeer()
			return e.peer(n).gone(n)
		}
		if freed, gone := e.departures.gone[member{context, n}]; gone {
			return e.departureErr(n, freed)
		}
	}
	return nil
}

// firstRefusing returns the error of the first of these processes to which a message could not be sent because it has closed, or
// nil.
func (e *Engine) firstRefusing(peers []int32) error {
	for _, n := range peers {
		if p := e.peers[n]; p != nil && p.refuses {
			return &failureError{n, fabric.ErrPeerClosed}
		}
	}
	return nil
}
