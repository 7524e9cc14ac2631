package proto

import "github.com/ibrun/ibrun/perf"

// BeginOp is called when an operation of several of the engine's calls begins; see perf.Recorder.
func (e *Engine) BeginOp(op perf.Op, n int) (began uint64) { return e.rec.Begin(op, n) }

// EndOp is called when what Begin was told of has ended.
func (e *Engine) EndOp(op perf.Op, n int, began uint64) {
	if e.rec == nil {
		return
	}
	e.lock()
	e.rec.End(op, n, began)
	e.unlock()
}

// SetRecording switches recording on, as it is at the start, or off.
func (e *Engine) SetRecording(on bool) {
	e.lock()
	defer e.unlock()
	if on == (e.rec != nil) || e.book == nil {
		return
	}
	if e.rec = e.book; !on {
		e.rec = nil
	}
	for _, p := range e.peers {
		if p != nil {
			p.link, p.other = p.other, p.link
		}
	}
}

// RecordProgress records how far the program says it is.
func (e *Engine) RecordProgress(done, total uint64) {
	e.lock()
	e.book.Progress(done, total)
	e.unlock()
}

// StartTrace has operations and messages written to the trace of the configuration from now on, at times by a clock. No
// operation may be under way.
func (e *Engine) StartTrace(now func() int64) {
	e.lock()
	e.book.Trace(e.trace, now)
	e.unlock()
}

// linkTo returns what counts the messages of a peer, which may send before this side has connected.
func (e *Engine) linkTo(n int32) *perf.Link {
	p := e.peer(n)
	if p.link.Zero() && e.rec != nil {
		p.link = e.rec.Link(int(n), e.wayTo(n).transport)
	}
	return &p.link
}

// queues records how much waits in a context where a receive is about to.
func (e *Engine) queues(context uint32) {
	if e.rec != nil {
		e.rec.Matched(e.table(context).Lengths())
	}
}

// tally records what others count.
func (e *Engine) tally() {
	if e.rec == nil {
		return
	}
	var made, resent uint64
	pinned := 0
	for _, w := range e.ways {
		if w.pins != nil {
			s := w.pins.Stats()
			made += s.Misses
			pinned += s.Bytes
		}
		if w.resender != nil {
			resent += w.resender.Retransmits()
		}
	}
	e.rec.Retransmitted(resent)
	e.rec.Registered(made, pinned)
}

// Messages that are written down are numbered, apart from those for the engine itself: by their sender in the order in which they
// are posted, and by their receiver in the order in which they come, which is the same. So both ends give a message the same
// number, and nothing more goes over the wire. They all take the long way, so that the short one need not ask.

// left writes down that the message of a send is about to be posted.
func (e *Engine) left(r *Request) {
	if e.trace == nil {
		return
	}
	p := e.peer(r.route.Peer)
	p.sent++
	if e.rec != nil {
		e.trace.Left(r.route.Peer, r.route.Tag, r.route.Context, p.sent, len(r.buf))
	}
}

// came returns the number of a message that has come.
func (e *Engine) came(peer int32) uint32 {
	if e.trace == nil {
		return 0
	}
	p := e.peer(peer)
	p.came++
	return p.came
}

// met writes down that a message of n bytes has been given to a receive.
func (e *Engine) met(peer int32, v envelope, number uint32, n int) {
	if e.trace != nil && e.rec != nil {
		e.trace.Met(peer, v.Tag, v.context, number, n)
	}
}
