package proto

import (
	"cmp"

	"github.com/ibrun/ibrun/perf"
)

// PeerError is why not all of these processes can be counted on, as far as is known; nil if nothing is known against them.
func (e *Engine) PeerError(peers []int32) error {
	e.lock()
	defer e.unlock()
	e.progress() // news may have come
	return cmp.Or(e.leftOf(peers), e.broken)
}

// Err is why nothing that waits can be sure to complete; nil if it can.
func (e *Engine) Err() error {
	e.lock()
	defer e.unlock()
	e.progress()
	return e.broken
}

// WaitMessageOrExit waits for any message of a context, or until more processes have left in order than lefts. It
// returns how many have. The
// operation op, which it is a part of, is shown meanwhile.
func (e *Engine) WaitMessageOrExit(op perf.Op, context uint32, lefts int) (int, error) {
	e.lock()
	defer e.unlock()
	defer e.book.Leave(e.rec.Enter(op, -1, -1, 0))
	g := goal{what: mail, from: Route{Context: context}, value: uint64(lefts)}
	e.await(&g)
	if !g.met(e) {
		return e.lefts, e.broken
	}
	return e.lefts, nil
}

// FinalizedPeer is why nothing more comes from one of these processes in a context: it has left, and no message of the context
// waits; or nil.
func (e *Engine) FinalizedPeer(context uint32, peers []int32) error {
	e.lock()
	defer e.unlock()
	if e.lefts == 0 || e.table(context).FindUnexpected(AnySource, AnyTag) != nil {
		return nil
	}
	return e.leftOf(peers)
}

// leftOf is why one of these processes has left, or nil.
func (e *Engine) leftOf(peers []int32) error {
	for _, n := range peers {
		if p := e.peers[n]; p != nil && p.left != nil {
			return p.left
		}
	}
	return nil
}
