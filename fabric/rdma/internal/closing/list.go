package closing

import (
	"errors"
	"time"

	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/verbs"
)

// The last completions are waited for until so many steps have begun, half a second altogether. A
// device that works needs less than a millisecond. One that does not raise the event may lose
// receive slots; the job goes on. A time in which this process did not poll counts as one step.
const (
	step     = 10 * time.Millisecond
	maxSteps = 50
)

// Connection is a connection that is being closed, and why.
type Connection[E comparable] struct {
	Of     E
	Broken error       // why it is to be made again, nil if it is not for that reason
	Down   error       // why the peer is lost, nil if it is not
	REQ    *cm.Message // the last REQ that has arrived meanwhile, or nil

	position int // in List.all; -1 once it is closed
	steps    int // that have begun
}

// Break records why the connection is broken. The first reason counts, unless it was a flush:
// another failure causes a flush.
func (c *Connection[E]) Break(err error) {
	if c.Broken == nil || errors.Is(c.Broken, verbs.StatusFlushed) {
		c.Broken = err
	}
}

// Lose records why the peer is lost. The first reason counts.
func (c *Connection[E]) Lose(err error) {
	if c.Down == nil {
		c.Down = err
	}
}

// IsOverdue reports whether the last completions were waited for long enough.
func (c *Connection[E]) IsOverdue() bool { return c.steps > maxSteps }

// List holds the failures that are to be handled, and the connections that are being closed. There
// may be thousands of these at the same time, so a Poll looks only at those that have got a last
// completion. All are looked at once in each step. The zero List is empty.
type List[E comparable] struct {
	// StepAt is when the next step begins.
	StepAt time.Duration

	failures []Failure[E]
	handled  int              // failures that NextFailure has returned
	all      []*Connection[E] // in any order
	ready    []*Connection[E] // are to be looked at; some may be closed already
}

// Len returns how many connections are being closed.
func (l *List[E]) Len() int { return len(l.all) }

// Begin adds a connection that begins to be closed. Next returns it at once: if the device keeps
// completions, or the queue pairs were not connected, there are none to wait for.
func (l *List[E]) Begin(of E) *Connection[E] {
	c := &Connection[E]{Of: of, position: len(l.all)}
	l.all = append(l.all, c)
	l.LastCompletion(c)
	return c
}

// LastCompletion is called when one of the last completions of a connection has arrived.
func (l *List[E]) LastCompletion(c *Connection[E]) { l.ready = append(l.ready, c) }

// Next returns a connection that may have got all its last completions, nil if there is none. The
// caller closes it if it has, or if it is overdue.
func (l *List[E]) Next() *Connection[E] {
	for len(l.ready) > 0 {
		last := len(l.ready) - 1
		c := l.ready[last]
		l.ready[last] = nil
		l.ready = l.ready[:last]
		if c.position >= 0 {
			return c
		}
	}
	return nil
}

// Step begins a step if it is time for one, and reports whether it did. Next returns all
// connections then.
func (l *List[E]) Step(now time.Duration) bool {
	if now < l.StepAt {
		return false
	}
	l.StepAt = now + step
	for _, c := range l.all {
		c.steps++
		l.LastCompletion(c)
	}
	return true
}

// Finish removes a connection that is closed. The last one of the list takes its place.
func (l *List[E]) Finish(c *Connection[E]) {
	last := len(l.all) - 1
	l.all[c.position] = l.all[last]
	l.all[c.position].position = c.position
	l.all[last] = nil
	l.all, c.position = l.all[:last], -1
}

// Abandon empties the list, because nothing can be closed any more. It returns the peers
// that were recorded as lost, each with the reason.
func (l *List[E]) Abandon() map[E]error {
	down := map[E]error{}
	for _, c := range l.all {
		if c.Down != nil {
			down[c.Of] = c.Down
		}
	}
	for _, f := range l.failures[l.handled:] {
		if f.Down {
			down[f.Of] = f.Err
		}
	}
	*l = List[E]{}
	return down
}
