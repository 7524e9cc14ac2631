package proto

import (
	"github.com/ibrun/ibrun/mpi/internal/wire"
	"github.com/ibrun/ibrun/perf"
)

// recording is where the engine records its calls and, if asked to, each message.
type recording struct {
	active     *perf.Recorder   // nil while nothing is recorded
	configured *perf.Recorder   // the Recorder of the configuration; nil: nothing is ever recorded
	trace      *perf.Trace      // nil: messages are not traced
	comms      map[uint32]uint8 // numbers of the names of communicators by context, without bit; nil: none
	bit        uint32           // Config.ExactBit
	// fastKind is the kind of message that handleMessage handles itself; wire.NoKind if messages are
	// traced or have notes.
	fastKind uint64
}

func (c *recording) init(r *perf.Recorder, trace *perf.Trace, noted bool, bit uint32) {
	c.active, c.configured, c.trace, c.bit = r, r, trace, bit
	c.fastKind = uint64(wire.Eager)
	if trace != nil || noted {
		c.fastKind = wire.NoKind
	}
}

// NameContext gives the communicator of a context a name, which is recorded for its operations. "" removes the name.
func (e *Engine) NameContext(context uint32, name string) {
	e.lock()
	defer e.unlock()
	number := e.rec.configured.Name(name)
	if number == 0 {
		delete(e.rec.comms, context)
		return
	}
	if e.rec.comms == nil {
		e.rec.comms = map[uint32]uint8{}
	}
	e.rec.comms[context] = number
}

// enter records that a goroutine waits in an operation of a context, as perf.Recorder.Enter.
func (c *recording) enter(op perf.Op, context uint32, peer, tag int32, n int) perf.Lane {
	if c.comms != nil {
		c.active.SetName(c.comms[context&^c.bit])
	}
	return c.active.Enter(op, peer, tag, n)
}

// setPeer sets what a trace shows of the operation that ends next.
func (c *recording) setPeer(r *Route, tag int32) {
	if c.trace != nil {
		c.active.SetPeer(r.Peer, tag)
		c.active.SetName(c.comms[r.Context&^c.bit])
	}
}

// EndOpOn is EndOp for an operation on the communicator of a context.
func (e *Engine) EndOpOn(context uint32, op perf.Op, n int, began uint64) {
	if e.rec.active == nil {
		return
	}
	e.lock()
	if e.rec.trace != nil && !op.IsWithin() {
		e.rec.active.SetName(e.rec.comms[context])
	}
	e.rec.active.End(op, n, began)
	e.unlock()
}

// avoidsFastPaths reports whether all messages take the general paths, because they are traced or have notes.
func (e *Engine) avoidsFastPaths() bool { return e.checks || e.rec.trace != nil }

// set switches recording on or off and reports whether that changed anything.
func (c *recording) set(on bool) bool {
	if on == (c.active != nil) || c.configured == nil {
		return false
	}
	if c.active = c.configured; !on {
		c.active = nil
		c.configured.Paused()
	}
	return true
}

// What is on its way between processes is counted: a launcher can then tell processes that wait for each other from a slow
// network. Messages that are not eager are counted here, also while recording is off: before they are posted, and when they
// have been handled, after what they cause. ELAPSED is not counted, because it may be dropped. Eager ones are counted by
// perf.Link, while recording is on, immediately before or after they are sent, or handled: so a reader must compare two
// samples. A message in fragments counts as one, which arrives with the last.

// posted counts a message that is about to be sent, or to be queued.
func (c *recording) posted(k wire.Kind) {
	if !k.IsEager() && !k.IsClock() {
		c.configured.Begun()
	}
}

// dropped counts a message that was posted and will never be sent.
func (c *recording) dropped(k wire.Kind) {
	if !k.IsClock() {
		c.configured.Ended()
	}
}

// handled counts a message that has arrived.
func (c *recording) handled(k wire.Kind) {
	if !k.IsEager() && !k.IsClock() && k != wire.FirstFrag && k != wire.Frag && k != wire.Elapsed {
		c.configured.Ended()
	}
}

// BeginOp must be called when an operation begins that consists of several calls of the engine; see perf.Recorder. n is its
// length in bytes. It returns when the operation began.
func (e *Engine) BeginOp(op perf.Op, n int) (began uint64) { return e.rec.active.Begin(op, n) }

// BeginCounted is BeginOp for an operation whose end need not be recorded if it returns 0: the operation has been counted.
func (e *Engine) BeginCounted(op perf.Op, n int) (began uint64) {
	if began = e.rec.active.Begin(op, n); began == 0 {
		e.EndOp(op, n, 0)
	}
	return began
}

// EndOp records the end of an operation. began is the result of BeginOp.
func (e *Engine) EndOp(op perf.Op, n int, began uint64) {
	if e.rec.active == nil {
		return
	}
	e.lock()
	e.rec.active.End(op, n, began)
	e.unlock()
}

// SetRecording switches recording on or off. It is on at the start.
func (e *Engine) SetRecording(on bool) {
	e.lock()
	defer e.unlock()
	if !e.rec.set(on) {
		return
	}
	for _, p := range e.peers {
		if p != nil {
			p.link, p.inactiveLink = p.inactiveLink, p.link
		}
	}
}

// RecordProgress records the progress that the program reports about itself.
func (e *Engine) RecordProgress(done, total uint64) {
	e.lock()
	e.rec.configured.Progress(done, total)
	e.unlock()
}

// StartTrace writes operations and messages to the trace of the configuration from now on, with times from the clock now. No
// operation may be in progress.
func (e *Engine) StartTrace(now func() int64) {
	e.lock()
	e.rec.configured.Trace(e.rec.trace, now)
	e.unlock()
}

// linkTo returns the counters of a peer's messages. The peer may send before this side has connected.
func (e *Engine) linkTo(n int32) *perf.Link {
	p := e.peer(n)
	if p.link.Zero() && e.rec.active != nil {
		p.link = e.rec.active.Link(int(n), e.pathTo(n).transport)
	}
	return &p.link
}

// queueLengths records the queue lengths of a context in which a receive is about to begin.
func (c *recording) queueLengths(t *table) {
	if c.active != nil {
		c.active.Matched(t.Lengths())
	}
}

// transportCounters records the counters of the transports and registration caches.
func (c *recording) transportCounters(paths []*path) {
	if c.active == nil {
		return
	}
	var made, resent, connections, changed uint64
	pinned := 0
	for _, x := range paths {
		if x.regs != nil {
			s := x.regs.Stats()
			made += s.Misses
			pinned += s.Bytes
		}
		if x.retransmits != nil {
			resent += x.retransmits.Retransmits()
		}
		if x.reconnects != nil {
			n, m := x.reconnects.Reconnects()
			connections += n
			changed += m
		}
	}
	c.active.Retransmitted(resent)
	c.active.Reconnected(connections, changed)
	c.active.Registered(made, pinned)
}

// Traced messages are numbered, except those of the engine itself. The sender numbers them in the order in which they are
// posted, the receiver in the order in which they arrive, which is the same. So both ends give a message the same number
// without sending it. While messages are traced none takes a fast path, so the fast paths need no check.

// traceSend records that the message of a send to p is about to be posted.
func (c *recording) traceSend(p *peer, r *Request) {
	if c.trace == nil {
		return
	}
	p.sent++
	if c.active != nil {
		c.trace.Sent(r.route.Peer, r.route.Tag, r.route.Context, p.sent, r.size())
	}
}

// countReceived returns the trace number of a message that has arrived; 0 if messages are not traced.
func (e *Engine) countReceived(peer int32) uint32 {
	if e.rec.trace == nil {
		return 0
	}
	p := e.peer(peer)
	p.received++
	return p.received
}

// traceMatch records that a message of n bytes has been matched with a receive.
func (c *recording) traceMatch(peer int32, v wire.Envelope, number uint32, n int) {
	if c.trace != nil && c.active != nil {
		c.trace.Matched(peer, v.Tag, v.Context, number, n)
	}
}
