package proto

import (
	"errors"

	"github.com/ibrun/ibrun/mpi/internal/proto/internal/ended"
	"github.com/ibrun/ibrun/perf"
)

// Contexts returns the contexts of the engine.
func (e *Engine) Contexts() *Contexts { return &e.contexts }

// Expect must be called before processes agree on the generation of the next context with this
// number; Agreed follows. Other processes may have used the number so often since this process last
// used it that generations have wrapped around, so that the next context seems to have ended.
// Therefore no context with this number counts as ended until the agreement is known: the first
// messages of the next context may arrive earlier.
func (c *Contexts) Expect(number uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended.Expect(number)
}

// Agreed records the context that processes have agreed on. The contexts before it have ended. If
// this process does not join the context, it has ended as well.
func (c *Contexts) Agreed(context uint32, joins bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if last, ok := c.ended.Agreed(context, joins); ok {
		c.drop(last, ErrContextEnded) // its late messages
	}
	c.departures.reportLeft(context)
}

// Leave must be called when this process will take part in no operation of a context any more,
// before End. Messages in the context that wait for this process are refused, now and from now on.
func (c *Contexts) Leave(context uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leave(context)
}

func (c *Contexts) leave(context uint32) {
	if !c.departures.setLeft(context) {
		return
	}
	c.table(context).DrainMessages(func(m *unexpectedMessage) {
		c.unexpected.noteDropped(m.v, m.note)
		c.unexpected.refuseStored(m, false)
	})
	c.departures.reportLeft(context)
}

// End ends a context that this process has left: its receives that are posted, its probes and its
// schedules complete with err, which is an ErrFreed. So do the persistent requests that are started
// later. Unexpected messages, and those that arrive later, are refused. Operations whose message
// has been matched go on. Other processes may still need this one: they learn that it has left.
func (c *Contexts) End(context uint32, err error) {
	c.end(ended.Ending{Context: context}, err)
}

// Free is End for a context that all of its processes have agreed to free. They learn that its
// communicator was freed.
func (c *Contexts) Free(context uint32, err error) {
	c.end(ended.Ending{Context: context, Freed: true}, err)
}

func (c *Contexts) end(end ended.Ending, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	context := end.Context
	c.ended.End(end)
	c.schedules.dropPolled(context, err)
	c.drop(end, err)
	c.endRequests(end, err)
	c.departures.reportLeft(context)
	c.waiters.startBackground() // for schedules whose messages have been matched
}

// drop completes the posted receives of a context that has ended with err, and drops what else was
// recorded for it.
func (c *Contexts) drop(end ended.Ending, err error) {
	context := end.Context
	c.departures.forget(context)
	t := c.remove(context)
	if t == nil {
		return
	}
	delete(c.hints.byContext, context)
	c.rtr.Remove(context)
	c.hints.update(c.waiters.failure.err != nil, c.rec.General)
	t.Drain(
		func(r *Request) {
			if r.flags&rtrSent != 0 {
				c.receives.revokeRTR(r, err)
			} else {
				c.requests.complete(r, err)
			}
		},
		func(m *unexpectedMessage) {
			c.notes.Lose(m.note, m.v.Rank)
			c.unexpected.refuseStored(m, end.Freed)
		})
	c.waiters.rouseAll()
}

// endRequests marks the persistent requests of a context that has ended, and ends its schedules
// with err, except partitioned requests all of whose messages have been sent or matched. If its
// communicator was freed, operations that have failed because a process had left before, or had
// freed it, get err as well, if the program does not know yet.
func (c *Contexts) endRequests(end ended.Ending, err error) {
	if c.waiters.background.schedules == 0 && c.requests.persistent == 0 && !c.departures.failed {
		return
	}
	for _, slab := range c.requests.slabs {
		for i := range slab {
			r := &slab[i]
			if r.state == free || r.route.Context != end.Context {
				continue
			}
			if r.flags&persistent != 0 {
				r.flags |= contextEnded
			}
			switch s := r.schedule; {
			case r.state == done && r.err != nil && end.Freed && c.waiters.failure.err == nil && isDeparture(r.err):
				r.err = r.operationError(err)
			case r.state != active || s == nil || s.req != r || s.err == nil && r.activePartitioned().mayComplete():
			case s.busy: // another goroutine does a step, and will find that the context has ended
				s.program.Abandoned(err)
			default:
				if end.Freed && s.err != nil && isDeparture(s.err) {
					s.err = err
				}
				c.schedules.abandon(s, err)
			}
		}
	}
}

// isDeparture reports whether an operation has failed because a process had left, or had freed the
// communicator.
func isDeparture(err error) bool { return errors.Is(err, ErrFailed) || errors.Is(err, ErrFreed) }

// QueueLengths returns the numbers of posted receives and unexpected messages of a context.
func (c *Contexts) QueueLengths(context uint32) (receives, messages int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.table(context).Lengths()
}

// WaitIdle blocks until no operation of a context is in progress, except partitioned ones.
// Meanwhile the recorder shows op as the current operation.
func (c *Contexts) WaitIdle(op perf.Op, context uint32) error {
	return c.waitIdle(op, context, contextIdle)
}

// WaitPartitionedIdle is WaitIdle for the partitioned operations.
func (c *Contexts) WaitPartitionedIdle(op perf.Op, context uint32) error {
	return c.waitIdle(op, context, partitionedIdle)
}

func (c *Contexts) waitIdle(op perf.Op, context uint32, what goalKind) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.rec.Configured.Leave(c.rec.Enter(op, context, -1, -1, 0))
	g := goal{watch: watch{what: what, from: Route{Context: context}}}
	c.waiters.await(&g)
	if !c.waiters.reached(&g) {
		return c.waiters.failure.err
	}
	return nil
}
