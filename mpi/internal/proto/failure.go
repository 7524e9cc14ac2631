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
// messages to it fail.

// failures records which processes have failed or finalized.
type failures struct {
	err        error            // nil until the engine has failed
	finalizing bool             // any process may finalize now
	finalized  int              // number of peers that have finalized
	needed     func(int32) bool // reports whether a process must not finalize yet; nil: always true
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
	if n >= 0 && errors.Is(err, fabric.ErrPeerClosed) && (f.finalizing || f.needed != nil && !f.needed(n)) {
		p := e.peer(n)
		p.finalized = err
		p.updateMaxEager()
		f.finalized++
		e.completeRevokedOf(n)
	} else {
		f.err, e.hints.plainSends = err, false
	}
	e.waiters.wakeAll()
}

// Abort makes the engine fail with err: every call that waits, and every later call, returns it.
func (e *Engine) Abort(err error) {
	e.lock()
	if e.failure.err == nil {
		e.failure.err, e.hints.plainSends = fmt.Errorf("%w: %w", ErrFailed, err), false
	}
	e.waiters.wakeAll()
	e.unlock()
}

// AllowFinalize makes it no failure from now on if any process finalizes.
func (e *Engine) AllowFinalize() {
	e.lock()
	e.failure.finalizing = true
	e.unlock()
}

// PeerError makes progress once. It returns an error if one of these processes has finalized or the engine has failed.
func (e *Engine) PeerError(peers []int32) error {
	e.lock()
	defer e.unlock()
	e.progress()
	return cmp.Or(e.firstFinalized(peers), e.failure.err)
}

// Err makes progress once. It returns the error with which the engine has failed, or nil.
func (e *Engine) Err() error {
	e.lock()
	defer e.unlock()
	e.progress()
	return e.failure.err
}

// WaitMessageOrExit blocks until an unexpected message of a context is there, or more than seen processes have finalized. It
// returns how many have. Meanwhile the recorder shows op as the current operation.
func (e *Engine) WaitMessageOrExit(op perf.Op, context uint32, seen int) (int, error) {
	e.lock()
	defer e.unlock()
	defer e.rec.configured.Leave(e.rec.active.Enter(op, -1, -1, 0))
	g := goal{what: messageOrExit, from: Route{Context: context}, value: uint64(seen)}
	e.await(&g)
	if !g.reached(e) {
		return e.failure.finalized, e.failure.err
	}
	return e.failure.finalized, nil
}

// FinalizedPeer returns an error if one of these processes has finalized and no unexpected message of the context is left, so
// that nothing more will come from it.
func (e *Engine) FinalizedPeer(context uint32, peers []int32) error {
	e.lock()
	defer e.unlock()
	if e.failure.finalized == 0 || e.contexts.table(context).FindUnexpected(AnySource, AnyTag) != nil {
		return nil
	}
	return e.firstFinalized(peers)
}

// firstFinalized returns the error of the first of these processes that has finalized, or nil.
func (e *Engine) firstFinalized(peers []int32) error {
	for _, n := range peers {
		if p := e.peers[n]; p != nil && p.finalized != nil {
			return p.finalized
		}
	}
	return nil
}
