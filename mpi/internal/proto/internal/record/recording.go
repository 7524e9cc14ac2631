package record

import (
	"github.com/ibrun/ibrun/mpi/internal/proto/internal/lock"
	"github.com/ibrun/ibrun/mpi/internal/wire"
	"github.com/ibrun/ibrun/perf"
)

// Recording records the calls of one engine. Its exported fields are constant, except
// Active.
type Recording struct {
	// Active is nil while nothing is recorded.
	Active *perf.Recorder
	// Configured is the recorder of the configuration; nil: nothing is ever recorded.
	Configured *perf.Recorder
	// Trace records every message; nil: messages are not traced.
	Trace *perf.Trace
	// General says that all messages take the general paths, because they are traced or have notes.
	General bool
	// FastKind is the kind of message that takes a fast path when it arrives; wire.NoKind with
	// General.
	FastKind uint64

	mu    *lock.Mutex
	names map[uint32]uint8 // numbers of communicator names by context, without bit; nil: none
	bit   uint32           // of the contexts of collectives
}

// New returns a Recording. mu is the lock of the engine, noted says that messages have notes, and
// bit is set in the contexts of collectives.
func New(mu *lock.Mutex, r *perf.Recorder, trace *perf.Trace, noted bool, bit uint32) Recording {
	c := Recording{Active: r, Configured: r, Trace: trace, General: noted || trace != nil, mu: mu, bit: bit,
		FastKind: uint64(wire.Eager)}
	if c.General {
		c.FastKind = wire.NoKind
	}
	return c
}

// Enter records that a goroutine waits in an operation of a context, as perf.Recorder.Enter.
func (c *Recording) Enter(op perf.Op, context uint32, peer, tag int32, n int) perf.Lane {
	if c.names != nil {
		c.Active.SetName(c.names[context&^c.bit])
	}
	return c.Active.Enter(op, peer, tag, n)
}

// SetPeer sets what a trace shows of the operation that ends next.
func (c *Recording) SetPeer(context uint32, peer, tag int32) {
	if c.Trace != nil {
		c.Active.SetPeer(peer, tag)
		c.Active.SetName(c.names[context&^c.bit])
	}
}

// Span records what a schedule has done since began, as perf.Recorder.Span, if there is a trace.
func (c *Recording) Span(kind perf.EventKind, context uint32, op perf.Op, began uint64, tag int32, n int) {
	if began == 0 {
		return
	}
	c.Active.SetName(c.names[context&^c.bit])
	c.Active.Span(kind, op, began, tag, n)
}

// Switch switches recording on or off and reports whether that changed anything.
func (c *Recording) Switch(on bool) bool {
	if on == (c.Active != nil) || c.Configured == nil {
		return false
	}
	if c.Active = c.Configured; !on {
		c.Active = nil
		c.Configured.Paused()
	}
	return true
}

// WaitedSince records the time since then as waiting time, and sets then to 0. It does nothing if
// then is 0.
func (c *Recording) WaitedSince(then *uint64) {
	if *then != 0 {
		c.Active.Waited(*then)
		*then = 0
	}
}

// Posted counts a message that is about to be sent, or to be queued.
func (c *Recording) Posted(k wire.Kind) {
	if !k.IsEager() && !k.IsClock() {
		c.Configured.Begun()
	}
}

// Dropped counts a message that was posted and will never be sent. It includes eager messages,
// which Posted leaves out: perf.Link.OutBy has counted them before they were posted.
func (c *Recording) Dropped(k wire.Kind) {
	if !k.IsClock() {
		c.Configured.Ended()
	}
}

// Handled counts a message that has arrived.
func (c *Recording) Handled(k wire.Kind) {
	if !k.IsEager() && !k.IsClock() && k != wire.FirstFrag && k != wire.Frag && k != wire.Elapsed {
		c.Configured.Ended()
	}
}

// Traced messages are numbered, except those of the engine itself. The sender numbers them in the
// order in which they are posted, the receiver in the order in which they arrive, which is the
// same. So both ends give a message the same number without sending it. While messages are traced
// none takes a fast path, so the fast paths need no check.

// Sent records that a message of n bytes with a number is about to be posted, which is traced.
func (c *Recording) Sent(peer, tag int32, context, number uint32, n int) {
	if c.Active != nil {
		c.Trace.Sent(peer, tag, context, number, n)
	}
}

// Matched records that a message of n bytes has been matched with a receive.
func (c *Recording) Matched(peer int32, v wire.Envelope, number uint32, n int) {
	if c.Trace != nil && c.Active != nil {
		c.Trace.Matched(peer, v.Tag, v.Context, number, n)
	}
}
