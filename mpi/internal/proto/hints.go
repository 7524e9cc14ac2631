package proto

import (
	"errors"
	"fmt"
	"math"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/mpi/internal/match"
)

// What the assertions of a context forbid.
var (
	// ErrAnySource says that a receive or probe leaves the source open where that was asserted not to happen.
	ErrAnySource = errors.New("the communicator asserts that no receive leaves the source open")
	// ErrAnyTag is the same for the tag.
	ErrAnyTag = errors.New("the communicator asserts that no receive leaves the tag open")
	// ErrLengthMismatch says that a message was shorter than the buffer where all were asserted to fill theirs.
	ErrLengthMismatch = fmt.Errorf("%w: the communicator asserts that every message has the length of its receive buffer",
		ErrTruncate)
)

// Hints change how the messages of a context travel.
type Hints struct {
	// NoAnySource and NoAnyTag say that no receive of this process leaves source or tag open.
	NoAnySource, NoAnyTag bool
	// ExactLength says that messages which this process receives have the lengths of their buffers.
	ExactLength bool
	// Epoch is not 0 while any process of the context has Exact set, and another at all of them after each change. It has
	// EpochBits.
	Epoch uint32
	// AllowOvertaking says that messages need not be matched in order.
	AllowOvertaking bool
	// EagerLimit is the longest message that is not announced, as far as the transport goes along; -1: what the transport says.
	EagerLimit int
	// Rail is the one of [Engine.Rails] that Read and Write of large messages take; -1: whichever suits.
	Rail int
	// Peers are the numbers of the processes by rank.
	Peers []int32
}

// EpochBits is the size of an epoch.
const EpochBits = 24

// plain tells whether messages of a context with these hints are sent like those of one without.
func (h *Hints) plain() bool { return h.Epoch == 0 && h.EagerLimit < 0 }

// SetHints gives a context other hints. NoAnySource and NoAnyTag are not taken while receives wait that they would forbid; what
// is returned has them as they are now.
func (e *Engine) SetHints(context uint32, h Hints) Hints {
	e.lock()
	defer e.unlock()
	if e.stale(context) {
		return h
	}
	h.NoAnySource, h.NoAnyTag = e.table(context).Restrict(h.NoAnySource, h.NoAnyTag, waiting)
	if e.hints == nil {
		e.hints = map[uint32]*Hints{}
	}
	if old := e.hints[context]; old == nil || old.Epoch != h.Epoch {
		e.forgetWants(context)
	}
	e.hints[context] = &h
	e.rehint()
	e.unpark() // probes that may not wait any more
	return h
}

// rehint sets what follows from the hints of all contexts, so that contexts without hints need not ask.
func (e *Engine) rehint() {
	e.plain, e.wantFrom, e.railed = e.broken == nil && e.trace == nil, math.MaxInt, false
	for _, h := range e.hints {
		e.railed = e.railed || h.Rail >= 0
		e.plain = e.plain && h.plain()
		if h.ExactLength {
			e.wantFrom = 1
		}
	}
	e.bare = e.wantFrom == math.MaxInt && e.trace == nil
}

// Rails are the devices that large messages may take, by number; nil where no transport has any. They are constant.
func (e *Engine) Rails() []string {
	for _, w := range e.ways {
		if w.railer != nil {
			return w.railer.Rails()
		}
	}
	return nil
}

// over is the way by which a transfer goes: over the rail that its context is to take, if it is to take one.
func (e *Engine) over(t *transfer) fabric.Endpoint {
	p := e.peer(t.peer)
	if !e.railed || p.way.railer == nil {
		return p.ep
	}
	h := e.hints[t.req.route.Context]
	if h == nil || h.Rail < 0 {
		return p.ep
	}
	return p.way.railer.WithRail(p.ep, h.Rail)
}

// isPlain is e.plain for one context.
func (e *Engine) isPlain(context uint32) bool {
	if e.broken != nil || e.trace != nil {
		return false
	}
	h := e.hints[context]
	return h == nil || h.plain()
}

func waiting(m *arrived) *match.Message[arrived] { return &m.waiting }

// forbidden is the error of a receive or probe that its context's assertions forbid; nil if it may be.
func (e *Engine) forbidden(from Route) error {
	t := e.table(from.Context)
	switch {
	case t.Allows(from.Rank, from.Tag):
		return nil
	case !t.Allows(from.Rank, 0):
		return ErrAnySource
	}
	return ErrAnyTag
}

// misfit is the outcome of a receive whose message has another length than its buffer.
func (e *Engine) misfit(r *Request, bytes int) error {
	if bytes > len(r.buf) {
		return ErrTruncate
	}
	if e.wantFrom == math.MaxInt {
		return nil
	}
	if h := e.hints[r.route.Context]; h != nil && h.ExactLength {
		return ErrLengthMismatch
	}
	return nil
}

// shape is the form of a message as the hints of its context have it.
func (h *Hints) shape(f Protocol, n int, rules *Thresholds) Protocol {
	switch {
	case h.EagerLimit < 0:
		return f
	case n <= min(h.EagerLimit, rules.MaxData):
		return Eager
	}
	return max(f, RendezvousRead)
}

// overtakes tells whether a message may be sent before others that wait for room: it is an offer, and nobody asks for its
// order. Where messages are written down they are numbered, and keep their order.
func (e *Engine) overtakes(o *outgoing) bool {
	if o.req == nil || kind(o.header[0]) != kindOffer || e.trace != nil {
		return false
	}
	h := e.hints[o.req.route.Context]
	return h != nil && h.AllowOvertaking && h.Epoch == 0
}

// ahead queues an offer before all that waits but other offers which came so.
func (p *peer) ahead(e *Engine, o *outgoing) {
	at := &p.head
	for *at != nil && e.overtakes(*at) {
		at = &(*at).next
	}
	if o.next = *at; o.next == nil {
		p.tail = o
	}
	*at = o
}
