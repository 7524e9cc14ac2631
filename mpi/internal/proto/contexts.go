package proto

import (
	"errors"

	"github.com/ibrun/ibrun/mpi/internal/proto/internal/ended"
	"github.com/ibrun/ibrun/perf"
)

// ExpectContext must be called before processes agree on the generation of the next context with this number; ContextAgreed
// follows. Other processes may have used the number so often since this process last used it that generations have wrapped
// around, so that the next context seems to have ended. Therefore no context with this number counts as ended until the
// agreement is known: the first messages of the next context may arrive earlier.
func (e *Engine) ExpectContext(number uint32) {
	e.lock()
	defer e.unlock()
	e.contexts.ended.Expect(number)
}

// ContextAgreed records the context that processes have agreed on. The contexts before it have ended. If this process does not
// join the context, it has ended as well.
func (e *Engine) ContextAgreed(context uint32, joins bool) {
	e.lock()
	defer e.unlock()
	if last, ok := e.contexts.ended.Agreed(context, joins); ok {
		e.dropContext(last, ErrContextEnded) // its late messages
	}
	e.departures.reportLeft(context)
}

// EndContext ends a context that this process has left: its receives that are posted, its probes and its schedules complete with
// err, which is an ErrFreed. So do the persistent requests that are started later. Unexpected messages, and those that arrive
// later, are refused. Operations whose message has been matched go on. Other processes may still need this one: they learn that
// it has left.
func (e *Engine) EndContext(context uint32, err error) {
	e.endContext(ended.Ending{Context: context}, err)
}

// FreeContext is EndContext for a context that all of its processes have agreed to free. They learn that its communicator was
// freed.
func (e *Engine) FreeContext(context uint32, err error) {
	e.endContext(ended.Ending{Context: context, Freed: true}, err)
}

func (e *Engine) endContext(end ended.Ending, err error) {
	e.lock()
	defer e.unlock()
	context := end.Context
	e.contexts.ended.End(end)
	e.schedules.dropPolled(context, err)
	e.dropContext(end, err)
	e.endRequests(end, err)
	e.departures.reportLeft(context)
	e.waiters.startBackground() // for schedules whose messages have been matched
}

// dropContext completes the posted receives of a context that has ended with err, and drops what else was recorded for it.
func (e *Engine) dropContext(end ended.Ending, err error) {
	context := end.Context
	e.departures.forget(context)
	t := e.contexts.remove(context)
	if t == nil {
		return
	}
	delete(e.hints.byContext, context)
	e.transfers.rtr.Remove(context)
	e.hints.update(e.failure.err != nil, e.rec.General)
	t.Drain(
		func(r *Request) {
			if r.flags&rtrSent != 0 {
				r.revokeRTR(err)
			} else {
				e.requests.complete(r, err)
			}
		},
		func(m *unexpectedMessage) {
			e.checks.table.Lose(m.note, m.v.Rank)
			e.unexpected.refuseStored(m, end.Freed)
		})
	e.waiters.rouseAll()
}

// endRequests marks the persistent requests of a context that has ended, and ends its schedules with err, except partitioned
// requests all of whose messages have been sent or matched. If its communicator was freed, operations that have failed because a
// process had left before, or had freed it, get err as well, if the program does not know yet.
func (e *Engine) endRequests(end ended.Ending, err error) {
	if e.waiters.background.schedules == 0 && e.requests.persistent == 0 && !e.departures.failed {
		return
	}
	for _, slab := range e.requests.slabs {
		for i := range slab {
			r := &slab[i]
			if r.state == free || r.route.Context != end.Context {
				continue
			}
			if r.flags&persistent != 0 {
				r.flags |= contextEnded
			}
			switch s := r.schedule; {
			case r.state == done && r.err != nil && end.Freed && e.failure.err == nil && isDeparture(r.err):
				r.err = r.operationError(err)
			case r.state != active || s == nil || s.req != r || s.err == nil && r.activePartitioned().mayComplete():
			case s.busy: // another goroutine does a step, and will find that the context has ended
				s.program.Abandoned(err)
			default:
				if end.Freed && s.err != nil && isDeparture(s.err) {
					s.err = err
				}
				e.schedules.abandon(s, err)
			}
		}
	}
}

// isDeparture reports whether an operation has failed because a process had left, or had freed the communicator.
func isDeparture(err error) bool { return errors.Is(err, ErrFailed) || errors.Is(err, ErrFreed) }

// QueueLengths returns the numbers of posted receives and unexpected messages of a context.
func (e *Engine) QueueLengths(context uint32) (receives, messages int) {
	e.lock()
	defer e.unlock()
	return e.contexts.table(context).Lengths()
}

// WaitContextIdle blocks until no operation of a context is in progress, except partitioned ones. Meanwhile the recorder shows op
// as the current operation.
func (e *Engine) WaitContextIdle(op perf.Op, context uint32) error {
	return e.waitIdle(op, context, contextIdle)
}

// WaitPartitionedIdle is WaitContextIdle for the partitioned operations.
func (e *Engine) WaitPartitionedIdle(op perf.Op, context uint32) error {
	return e.waitIdle(op, context, partitionedIdle)
}

func (e *Engine) waitIdle(op perf.Op, context uint32, what goalKind) error {
	e.lock()
	defer e.unlock()
	defer e.rec.Configured.Leave(e.rec.Enter(op, context, -1, -1, 0))
	g := goal{watch: watch{what: what, from: Route{Context: context}}}
	e.waiters.await(&g)
	if !e.waiters.reached(&g) {
		return e.failure.err
	}
	return nil
}
