package coordinator

import (
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
)

// leftDelay is how long a rank that has left is not yet announced. Most ranks leave at the same time, at the end of the job, and
// then no rank needs the announcement.
const leftDelay = 20 * time.Millisecond

// leftRanks collects the ranks that have finalized or exited, so that they can be announced to the others: one of them may
// need such a rank without being connected to it.
type leftRanks struct {
	known     []bool // by rank
	count     int    // of known
	announced []int  // to be announced when due receives
	due       <-chan time.Time
}

func newLeftRanks(ranks int) *leftRanks { return &leftRanks{known: make([]bool, ranks)} }

// handleEvent records the rank that an event says has left.
func (l *leftRanks) handleEvent(e *protocol.Event) {
	if e.Kind != protocol.EventFinalize && e.Kind != protocol.EventExit || l.known[e.Rank] {
		return
	}
	l.known[e.Rank] = true
	l.count++
	l.announced = append(l.announced, e.Rank)
	if l.due == nil {
		l.due = time.After(leftDelay)
	}
}

// order returns the order that announces the ranks, or nil if no rank is left to receive it.
func (l *leftRanks) order() *protocol.Order {
	ranks := l.announced
	l.announced, l.due = nil, nil
	if l.count == len(l.known) {
		return nil
	}
	return &protocol.Order{Left: ranks}
}
