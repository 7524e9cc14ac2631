package proto

import "github.com/ibrun/ibrun/mpi/internal/wire"

// directRecv is the receive of a goroutine that keeps the lock while it polls, where no other
// receive or message waits in the context. It needs no request and no look-up in a table: its
// message is recognized by the envelope. If another message comes first it becomes an ordinary
// receive.
type directRecv struct {
	first, second uint64 // the expected envelope; first is 0 if there is no such receive
	route         Route
	buf           []byte
	length        int      // of the message received
	req           *Request // the ordinary receive that it has become
}

// tryDirect receives a message that arrives within some polls. If it returns false no receive has
// started, or it has become dispatcher.direct.req.
func (e *Engine) tryDirect(from Route, buf []byte) bool {
	if e.waiters.yieldTimer.Due() && !e.waiters.busy() {
		e.waiters.yield() // before the direct receive begins, since there is one for all goroutines
	}
	d := &e.poller.in.direct
	d.req = nil
	if e.waiters.spin == 0 || e.waiters.busy() || from.Rank < 0 || from.Tag < 0 || !e.hints.directRecv {
		return false
	}
	if t := e.contexts.table(from.Context); e.contexts.isEnded(t) || !t.Empty() {
		return false
	}
	d.first, d.second = wire.Envelope{Kind: wire.Eager, Context: from.Context, Match: from.Match}.Encode()
	d.route, d.buf = from, buf
	for i := 0; d.first != 0 && i < e.waiters.spin && e.transfers.head == nil && e.failure.err == nil && !e.mu.Contended() &&
		(i != pollsBeforeCount || !e.waiters.hasNewcomers()); i++ {
		e.poller.progress()
	}
	d.buf = nil
	if d.first == 0 {
		return d.req == nil
	}
	d.first = 0
	return false
}

// postDirect makes the direct receive an ordinary one: it gets a request, which is posted.
func (d *dispatcher) postDirect() {
	x := &d.direct
	x.first = 0
	x.req = d.requests.take()
	x.req.send, x.req.route, x.req.buf = false, x.route, x.buf
	d.receives.start(x.req)
}
