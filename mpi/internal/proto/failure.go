package proto

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/perf"
)

// A peer that fails makes the whole engine fail: every operation in progress, and every later one, ends with an error. A peer
// that finalizes, that is, closes its transport in order, is no failure if this process does not need it any more: then only
// operations with it fail. The same holds for a peer that is lost without having been used: it may have finalized before this
// process connected to it.

// failures records which processes have failed or finalized.
type failures struct {
	err        error // nil until the engine has failed
	finalizing bool  // any process may finalize now
	departed   bool  // some process has finalized, or left a context: operations that wait must look which; see departures
	// finalized is the number of reports that a peer has finalized or left a context: its own, and those of the launcher.
	finalized int
	// needed is Config.Needed; nil: always true.
	needed func(n int32, closed bool) bool
}

// failureError is the failure of a process. It wraps ErrFailed and the cause.
type failureError struct {
	peer  int32 // -1: this process, because its transport has failed
	cause error
}

func (f *failureError) Error() string {
	if f.peer < 0 {
		return fmt.Sprintf("the transport of this process has failed: %v", f.cause)
	}
	return fmt.Sprintf("process %d was lost: %v", f.peer, f.cause)
}

// Unwrap returns both errors that this one wraps.
func (f *failureError) Unwrap() []error { return []error{ErrFailed, f.cause} }

// fail records that a peer has failed or finalized; see the comment above. n is -1 if the transport of this process has failed.
func (e *Engine) fail(n int32, err error) {
	if e.failure.err != nil || n >= 0 && e.peer(n).finalized != nil {
		return
	}
	err = &failureError{n, err}
	f := &e.failure
	if n >= 0 && f.mayLeave(n, err) {
		p := e.peer(n)
		p.finalized = err
		p.updateMaxEager()
		f.finalized++
		e.completeRevokedOf(n)
		e.endOperationsWith(n, err)
	} else {
		f.err, e.hints.plainSends = err, false
		e.rec.configured.LostPeer()
	}
	e.waiters.rouseAll()
}

// mayLeave reports whether the loss of a process is no failure.
func (f *failures) mayLeave(n int32, err error) bool {
	switch {
	case errors.Is(err, fabric.ErrPeerClosed):
		return f.finalizing || f.needed != nil && !f.needed(n, true)
	case errors.Is(err, fabric.ErrPeerDown) && !errors.Is(err, fabric.ErrCorrupt):
		return f.needed != nil && !f.needed(n, false)
	}
	return false
}

// Abort makes the engine fail with err: every call that waits, and every later call, returns it.
func (e *Engine) Abort(err error) {
	e.lock()
	if e.failure.err == nil {
		e.failure.err, e.hints.plainSends = fmt.Errorf("%w: %w", ErrFailed, err), false
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
// engine has failed.
func (e *Engine) PeerError(context uint32, peers []int32) error {
	e.lock()
	defer e.unlock()
	e.progress()
	return cmp.Or(e.firstGone(context, peers), e.failure.err)
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
	defer e.rec.configured.Leave(e.rec.active.Enter(op, -1, -1, 0))
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
		if p := e.peers[n]; p != nil && (p.finalized != nil || p.announced) {
			e.rec.configured.LostPeer()
			return p.gone(n)
		}
		if e.departures.gone[member{context, n}] {
			return e.departureErr(n)
		}
	}
	return nil
}
