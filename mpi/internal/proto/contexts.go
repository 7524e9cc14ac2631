package proto

import (
	"github.com/ibrun/ibrun/mpi/internal/match"
	"github.com/ibrun/ibrun/perf"
)

// ContextBits is the number of bits of a context that hold its number. Numbers are used again; the rest of a context is a
// generation, which counts how often the number was used before:
//
//	generation | number, [ContextBits] of it
//
// A message of an earlier generation is not matched any more.
const ContextBits = 13

// noContext is the context of requests that are not messages. No communicator has it: it would be the last generation of the
// last number.
const noContext = ^uint32(0)

// table matches the messages and receives of one context.
type table = match.Table[Request, unexpectedMessage]

// contexts maps context ids to their matching tables, and knows which contexts have ended.
type contexts struct {
	tables     map[uint32]*table
	endedTable table             // the table of every context that has ended; always empty
	ended      map[uint32]uint32 // by number, the last context with that number that ended
	unsettled  map[uint32]uint32 // the entries of ended that expect has taken out
	last       cachedTable       // the entry of recent used last
	recent     [recentTables]cachedTable
}

// recentTables is the size of the direct-mapped cache in front of the map of contexts.
const recentTables = 16

type cachedTable struct {
	context uint32
	t       *table
}

func (c *contexts) init() {
	c.tables = map[uint32]*table{}
	c.ended = map[uint32]uint32{}
	c.unsettled = map[uint32]uint32{}
	c.last = cachedTable{noContext, &c.endedTable}
}

// table returns the table of a context. It creates one for an unknown context, since another process may use a context before
// this one knows it. For a context that has ended it returns endedTable.
func (c *contexts) table(context uint32) *table {
	if c.last.context == context {
		return c.last.t
	}
	return c.lookup(context)
}

func (c *contexts) lookup(context uint32) *table {
	if x := c.recent[context%recentTables]; x.context == context && x.t != nil {
		c.last = x
		return x.t
	}
	t := c.tables[context]
	if t == nil {
		if c.isStale(context) {
			return &c.endedTable
		}
		t = new(table)
		c.tables[context] = t
	}
	c.last = cachedTable{context, t}
	c.recent[context%recentTables] = c.last
	return t
}

// isEnded reports whether t is the table of a context that has ended.
func (c *contexts) isEnded(t *table) bool { return t == &c.endedTable }

// isStale reports whether a context has ended. The comparison of generations allows for wrap-around.
func (c *contexts) isStale(context uint32) bool {
	ended, ok := c.ended[contextNumber(context)]
	return ok && int32(context-ended) <= 0
}

// hasEnded is isStale for a context that this process has used, also while it does not know which is the next one of its number.
func (c *contexts) hasEnded(context uint32) bool {
	last, ok := c.unsettled[contextNumber(context)]
	return ok && last == context || c.isStale(context)
}

func contextNumber(context uint32) uint32 { return context & (1<<ContextBits - 1) }

// expect makes no context of a number count as ended until agreed is called.
func (c *contexts) expect(number uint32) {
	if last, ok := c.ended[number]; ok {
		c.unsettled[number] = last
		delete(c.ended, number)
	}
}

// agreed records which context of its number is used next. It returns the context that had ended last before expect, if that
// is another one.
func (c *contexts) agreed(context uint32, joins bool) (last uint32, ok bool) {
	number := contextNumber(context)
	last, ok = c.unsettled[number]
	delete(c.unsettled, number)
	c.ended[number] = context
	if joins {
		c.ended[number] = context - 1<<ContextBits
	}
	return last, ok && last != context
}

// remove takes the table of a context out of the map and the caches. It returns nil if there is none.
func (c *contexts) remove(context uint32) *table {
	t := c.tables[context]
	if t == nil {
		return nil
	}
	delete(c.tables, context)
	c.recent[context%recentTables] = cachedTable{}
	c.last = cachedTable{noContext, &c.endedTable}
	return t
}

// ExpectContext must be called before processes agree on the generation of the next context with this number; ContextAgreed
// follows. Other processes may have used the number so often since this process last used it that generations have wrapped
// around, so that the next context seems to have ended. Therefore no context with this number counts as ended until the
// agreement is known: the first messages of the next context may arrive earlier.
func (e *Engine) ExpectContext(number uint32) {
	e.lock()
	defer e.unlock()
	e.contexts.expect(number)
}

// ContextAgreed records the context that processes have agreed on. The contexts before it have ended. If this process does not
// join the context, it has ended as well.
func (e *Engine) ContextAgreed(context uint32, joins bool) {
	e.lock()
	defer e.unlock()
	if last, ok := e.contexts.agreed(context, joins); ok {
		e.endContext(last, ErrContextEnded) // drops late messages of the last context
	}
	e.reportLeft(context)
}

// EndContext ends a context. Its posted receives complete with err. Its probes, and all later calls, fail with
// ErrContextEnded. Its unexpected messages, and those that arrive later, are dropped.
func (e *Engine) EndContext(context uint32, err error) {
	e.lock()
	defer e.unlock()
	e.contexts.ended[contextNumber(context)] = context
	e.endContext(context, err)
	e.reportLeft(context)
}

func (e *Engine) endContext(context uint32, err error) {
	e.dropPolled(context, err)
	e.departures.forget(context)
	t := e.contexts.remove(context)
	if t == nil {
		return
	}
	delete(e.hints.byContext, context)
	e.rtr.remove(context)
	e.hints.update(e.failure.err != nil, e.avoidsFastPaths())
	t.Drain(
		func(r *Request) {
			if r.flags&rtrSent != 0 {
				r.revokeRTR(err)
			} else {
				e.complete(r, err)
			}
		},
		func(m *unexpectedMessage) {
			e.noteUnreceived(m.note, m.v.Rank)
			e.answerDropped(m.peer, m.v.kind, m.w, kindFIN)
			e.abandonFragments(m)
			e.dropUnexpected(m)
		})
	e.waiters.rouseAll()
}

// answerDropped answers the sender of a message that is dropped, if it waits for the receiver: kindFIN, as if it was received, or
// kindRefuse.
func (e *Engine) answerDropped(peer int32, k kind, w [5]uint64, answer kind) {
	switch k {
	case kindEagerSync:
		e.sendControl(peer, envelope{kind: answer}, w[0])
	case kindRTS:
		e.sendControl(peer, envelope{kind: answer}, w[3])
	}
}

// QueueLengths returns the numbers of posted receives and unexpected messages of a context.
func (e *Engine) QueueLengths(context uint32) (receives, messages int) {
	e.lock()
	defer e.unlock()
	return e.contexts.table(context).Lengths()
}

// WaitContextIdle blocks until no operation of a context is in progress. Meanwhile the recorder shows op as the current
// operation.
func (e *Engine) WaitContextIdle(op perf.Op, context uint32) error {
	e.lock()
	defer e.unlock()
	defer e.rec.configured.Leave(e.rec.enter(op, context, -1, -1, 0))
	g := goal{what: contextIdle, from: Route{Context: context}}
	e.await(&g)
	if !g.reached(e) {
		return e.failure.err
	}
	return nil
}
