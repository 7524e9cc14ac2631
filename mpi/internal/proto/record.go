package proto

import "github.com/ibrun/ibrun/perf"

// Begin is called when an operation of several of the engine's calls begins; see perf.Recorder.
func (e *Engine) Begin(op perf.Op, n int) (began uint64) { return e.rec.Begin(op, n) }

// End is called when what Begin was told of has ended.
func (e *Engine) End(op perf.Op, n int, began uint64) {
	if e.rec == nil {
		return
	}
	e.lock()
	e.rec.End(op, n, began)
	e.unlock()
}

// Recording switches recording on, as it is at the start, or off.
func (e *Engine) Recording(on bool) {
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

// Progress records how far the program says it is.
func (e *Engine) Progress(done, total uint64) {
	e.lock()
	e.book.Progress(done, total)
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
		e.rec.Matched(e.table(context).Waiting())
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
			resent += w.resender.Resent()
		}
	}
	e.rec.Retransmitted(resent)
	e.rec.Registered(made, pinned)
}
