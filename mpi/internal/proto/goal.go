package proto

import (
	"sync/atomic"
	"time"
)

// goal is what a goroutine waits for.
type goal struct {
	watch
	req   *Request
	gen   uint64 // of req
	any   anyWait
	found int // index in any.hs
	// sleepers, in shared memory like word, counts the processes that sleep until some word
	// changes.
	sleepers *uint64
	longWait
	err  error    // why the goal cannot be reached any more; nil: it may be reached
	stop *stopper // ends the wait early; nil: nothing does
}

// watch is the part of a goal that others than the goroutine itself need: it says what the goal is,
// unless that is the end of a request. A sleeper has a copy, so that the goal need not be
// allocated.
type watch struct {
	what    goalKind
	word    *uint64
	value   uint64
	from    Route
	mapping *mapping
}

// longWait says how long a goroutine has waited, and what it has done because of that.
type longWait struct {
	since   time.Time // when the goroutine began to wait; zero: not long ago
	watched bool      // Watch was sent, see departures
}

type goalKind uint8

const (
	requestCompleted    goalKind = iota // req has completed
	anyCompleted                        // one handle of any has completed, or none is active
	wordReached                         // *word has reached value
	messageMatches                      // there is an unexpected message that matches from
	messageOrExit                       // the same, or more than value processes have finalized
	sendsFlushed                        // no message waits to be sent, and no block to be moved
	bufferUnused                        // the attached buffer holds no message
	contextIdle                         // from.Context has only partitioned operations in progress
	partitionedIdle                     // no partitioned operation is in progress there
	flushed                             // all processes of the flush number value have answered
	segmentMapped                       // mapping is done
	channelsClosed                      // no request has an open channel, or may have one any more
	backgroundNotNeeded                 // no schedule is in progress, or a call waits
)

// isGeneral reports whether the end of any request may reach the goal.
func (k goalKind) isGeneral() bool {
	return k == anyCompleted || k == sendsFlushed || k == bufferUnused || k == contextIdle || k == partitionedIdle
}

// reached reports whether a goal has been reached.
func (w *waiters) reached(g *goal) bool {
	switch g.what {
	case requestCompleted:
		return g.req.state != active || g.req.gen != g.gen
	case anyCompleted:
		g.found = g.any.find()
		return g.found != allActive
	case wordReached:
		return int64(atomic.LoadUint64(g.word)-g.value) >= 0
	case backgroundNotNeeded:
		return w.background.schedules == 0 || w.background.leave || w.background.stop
	}
	return w.do.reached(g.watch)
}

// isOver reports whether the wait for a goal has ended.
func (w *waiters) isOver(g *goal) bool {
	return w.reached(g) || w.failure.err != nil || g.stop.isSet() || w.failure.departed && w.isHopeless(g)
}

// isHopeless reports whether a goal cannot be reached because of processes that have left, and sets
// g.err then. Requests are completed by departures.endHopeless instead.
func (w *waiters) isHopeless(g *goal) bool {
	switch g.what {
	case wordReached, messageMatches, segmentMapped:
		if g.err == nil {
			g.err = w.do.hopeless(g.from)
		}
	}
	return g.err != nil && !w.reached(g)
}

// watchIfDue sends Watch if the calling goroutine has waited for g for long enough, and records
// that in g; see actions. The caller must check the goal again afterwards.
func (w *waiters) watchIfDue(g *goal) (left time.Duration) {
	g.longWait, left = w.do.watchIfDue(g.watch, g.longWait)
	return left
}
