package proto

import (
	"errors"
	"fmt"
	"math"

	"github.com/ibrun/ibrun/mpi/internal/match"
	"github.com/ibrun/ibrun/mpi/internal/notes"
	"github.com/ibrun/ibrun/mpi/internal/protocols"
)

// Violations of the assertions of a context.
var (
	// ErrAnySource reports a receive or probe with the wildcard source in a context that asserts
	// there is none.
	ErrAnySource = errors.New("the communicator asserts that no receive uses AnySource")
	// ErrAnyTag reports a receive or probe with the wildcard tag in a context that asserts there is
	// none.
	ErrAnyTag = errors.New("the communicator asserts that no receive uses AnyTag")
	// ErrLengthMismatch reports a message shorter than its buffer in a context that asserts exact
	// lengths.
	ErrLengthMismatch = fmt.Errorf("%w: the communicator asserts that every message has the length of its receive buffer",
		ErrTruncate)
)

// Hints change how the messages of a context are transferred.
type Hints struct {
	// NoAnySource and NoAnyTag assert that no receive of this process uses the wildcard source or
	// tag.
	NoAnySource, NoAnyTag bool
	// ExactLength asserts that messages which this process receives have the lengths of their
	// buffers.
	ExactLength bool
	// Epoch is not 0 while any process of the context has ExactLength set. After each change it has
	// a new value, the same at all processes. It has EpochBits.
	Epoch uint32
	// AllowOvertaking permits that messages are matched out of order.
	AllowOvertaking bool
	// EagerLimit is the length of the longest message that is sent without a rendezvous, as far as
	// the transport supports it; -1: the transport's own limit.
	EagerLimit int
	// Forced is the protocol of messages to be sent; nil: that of [Config], or the one that the
	// engine chooses.
	Forced *protocols.Forced
	// Rail is the index in [Engine.Rails] of the device for reads and writes of large messages; -1:
	// any.
	Rail int
	// Peers are the numbers of the processes, by rank.
	Peers []int32
}

// EpochBits is the size of an epoch in bits.
const EpochBits = 24

// hintSet holds the hints of all contexts, and what follows from all of them together: with these
// summaries the fast paths of contexts without hints need no look-up. update sets the summaries.
type hintSet struct {
	byContext map[uint32]*Hints
	// directRecv says that no receive sends an RTR, no length is checked, and messages are neither
	// traced nor noted.
	directRecv bool
	// plainSends says that the engine has not failed, that messages are neither traced nor noted,
	// and that nothing changes how short messages are sent.
	plainSends bool
	minRTR     int  // length from which receives may send an RTR; MaxInt: none does
	rails      bool // some context has a rail

	forced   *protocols.Forced // Config.Forced
	exactBit uint32            // Config.ExactBit
}

// plainSends reports whether short messages of a context with these hints are sent like those of a
// context without hints.
func (h *Hints) plainSends() bool { return h.Epoch == 0 && h.EagerLimit < 0 && h.Forced.PlainSends() }

// SetHints replaces the hints of a context. NoAnySource and NoAnyTag do not take effect while
// receives are posted that violate them. The result has their actual values.
func (c *Contexts) SetHints(context uint32, h Hints) Hints {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended.IsStale(context) {
		return h
	}
	h.NoAnySource, h.NoAnyTag = c.table(context).Restrict(h.NoAnySource, h.NoAnyTag, nodeOf)
	if c.hints.byContext == nil {
		c.hints.byContext = map[uint32]*Hints{}
	}
	if old := c.hints.byContext[context]; old == nil || old.Epoch != h.Epoch {
		c.rtr.Restart(context)
	}
	c.hints.byContext[context] = &h
	c.hints.update(c.waiters.failure.err != nil, c.rec.General)
	c.waiters.rouseAll() // a waiting probe may violate the hints now
	return h
}

// update sets the summaries. failed reports whether the engine has failed, general whether no
// message may take a fast path.
func (s *hintSet) update(failed, general bool) {
	s.plainSends, s.minRTR, s.rails = !failed && !general && s.forced.PlainSends(), math.MaxInt, false
	for _, h := range s.byContext {
		s.rails = s.rails || h.Rail >= 0
		s.plainSends = s.plainSends && h.plainSends()
		if h.ExactLength {
			s.minRTR = 1
		}
	}
	s.directRecv = s.minRTR == math.MaxInt && !general
}

// Rails returns the names of the devices that large messages may take; nil if no transport has
// several. The result is constant.
func (e *Engine) Rails() []string {
	for _, x := range e.links.paths {
		if x.multiRail != nil {
			return x.multiRail.Rails()
		}
	}
	return nil
}

// plainSendsIn is hintSet.plainSends for one context. It is not inlined, so that the fast paths,
// which rarely call it, stay short.
//
//go:noinline
func (e *Engine) plainSendsIn(context uint32) bool {
	if e.failure.err != nil || e.rec.General || !e.hints.forced.PlainSends() {
		return false
	}
	h := e.hints.byContext[context]
	return h == nil || h.plainSends()
}

func nodeOf(m *unexpectedMessage) *match.Message[unexpectedMessage] { return &m.node }

// assertionError returns the error of a receive or probe that violates the assertions of its
// context, whose table is t; or nil.
func assertionError(t *table, from Route) error {
	switch {
	case t.Allows(from.Rank, from.Tag):
		return nil
	case !t.Allows(from.Rank, 0):
		return ErrAnySource
	}
	return ErrAnyTag
}

// ExactLengthError reports a message with another length than its receive, in a context with
// Config.ExactBit. It is an ErrTruncate.
type ExactLengthError struct {
	Source    int32
	Got, Want int
}

// Error names the sender and both lengths.
func (x *ExactLengthError) Error() string {
	return fmt.Sprintf("rank %d sent %d bytes where %d were expected: the ranks call different collectives, or with different "+
		"arguments; ibrun --check shows which", x.Source, x.Got, x.Want)
}

// Unwrap makes the error an ErrTruncate.
func (x *ExactLengthError) Unwrap() error { return ErrTruncate }

// truncateError is an ErrTruncate with the details of the message.
type truncateError struct {
	source, tag    int32
	bytes, room    int
	sent, receives *notes.Note // nil without Checks
}

func (t *truncateError) Error() string {
	text := fmt.Sprintf("message of %d bytes from rank %d (tag %d) does not fit into a buffer of %d bytes",
		t.bytes, t.source, t.tag, t.room)
	if t.sent != nil && t.receives != nil {
		text += fmt.Sprintf(": %v, from %v", t.receives, t.sent)
	}
	return text
}

// Unwrap makes the error an ErrTruncate.
func (t *truncateError) Unwrap() error { return ErrTruncate }

// lengthError returns the error of a receive whose message has another length than its buffer; nil
// if that is allowed. r.status must be set.
func (x *receives) lengthError(r *Request, bytes int) error {
	if bytes <= r.size() && x.hints.directRecv && r.route.Context&x.hints.exactBit == 0 {
		return nil
	}
	switch {
	case r.err != nil: // the types differ, so the lengths mean nothing
		return r.err
	case r.route.Context&x.hints.exactBit != 0:
		return &ExactLengthError{r.status.Source, bytes, r.size()}
	case bytes > r.size():
		t := &truncateError{source: r.status.Source, tag: r.status.Tag, bytes: bytes, room: r.size()}
		if r.flags&noted != 0 {
			t.receives, t.sent = x.notes.Of(r.index)
		}
		return t
	}
	if h := x.hints.byContext[r.route.Context]; h != nil && h.ExactLength {
		return ErrLengthMismatch
	}
	return nil
}

// choose returns the protocol that follows from the context's eager limit.
func (h *Hints) choose(n int, x *protocols.Thresholds, paired bool) protocols.Protocol {
	if n <= min(h.EagerLimit, x.MaxData) {
		return protocols.Eager
	}
	return x.Rendezvous(n, paired)
}
