package proto

import "github.com/ibrun/ibrun/perf"

// StartGrequest returns a request that completes by Fulfil and not by a message. It can be waited for like any other.
func (e *Engine) StartGrequest() Handle {
	e.lock()
	defer e.unlock()
	r := e.take()
	r.status = empty
	r.route = Route{Peer: ProcNull, Context: noContext}
	r.send = true
	return r.handle()
}

// CompleteGrequest completes a request made by Promise, if it is still under way.
func (e *Engine) CompleteGrequest(h Handle, err error) {
	e.lock()
	if h.r.state == active && h.r.gen == h.gen {
		e.complete(h.r, err)
	}
	e.unlock()
}

// noContext is the context of what is no message. No communicator has it: it would be the last use of the last number.
const noContext = ^uint32(0)

// WaitContextIdle waits until no operation is under way that was begun in a context. The operation op, which it
// is a part of, is shown
// meanwhile.
func (e *Engine) WaitContextIdle(op perf.Op, context uint32) error {
	e.lock()
	defer e.unlock()
	defer e.book.Leave(e.rec.Enter(op, -1, -1, 0))
	g := goal{what: quiet, from: Route{Context: context}}
	e.await(&g)
	if !g.met(e) {
		return e.broken
	}
	return nil
}

// isQuiet tells whether no request of a context is active.
func (e *Engine) isQuiet(context uint32) bool {
	for _, block := range e.requests {
		for i := range block {
			if r := &block[i]; r.state == active && r.route.Context == context {
				return false
			}
		}
	}
	return true
}
