package proto

import (
	"github.com/ibrun/ibrun/mpi/internal/match"
	"github.com/ibrun/ibrun/mpi/internal/notes"
	"github.com/ibrun/ibrun/mpi/internal/proto/internal/ended"
	"github.com/ibrun/ibrun/mpi/internal/proto/internal/lock"
	"github.com/ibrun/ibrun/mpi/internal/proto/internal/record"
	"github.com/ibrun/ibrun/mpi/internal/proto/internal/rtr"
)

// ContextBits is the number of bits of a context that hold its number; see internal/ended.
const ContextBits = ended.NumberBits

// noContext is the context of requests that are not messages. No communicator has it: it would be
// the last generation of the last number.
const noContext = ^uint32(0)

// table matches the messages and receives of one context.
type table = match.Table[Request, unexpectedMessage]

// Contexts map context ids to their matching tables, and know which contexts have ended. The
// exported methods are called when processes agree on contexts and leave them.
type Contexts struct {
	tables     map[uint32]*table
	ended      ended.Contexts
	endedTable table       // the table of every context that has ended; always empty
	last       cachedTable // the entry of recent used last
	recent     [recentTables]cachedTable

	// What has to do with contexts in other parts of the engine.
	mu         *lock.Mutex // of the engine
	rec        *record.Recording
	waiters    *waiters
	requests   *Requests
	schedules  *Schedules
	departures *departures
	receives   *receives
	unexpected *unexpectedStore
	hints      *hintSet
	rtr        *rtr.Flows
	notes      *notes.Table
}

// recentTables is the size of the direct-mapped cache in front of the map of contexts.
const recentTables = 16

type cachedTable struct {
	context uint32
	t       *table
}

func (c *Contexts) init() {
	c.tables = map[uint32]*table{}
	c.last = cachedTable{noContext, &c.endedTable}
}

// table returns the table of a context. It creates one for an unknown context, since another
// process may use a context before this one knows it. For a context that has ended it returns
// endedTable.
func (c *Contexts) table(context uint32) *table {
	if c.last.context == context {
		return c.last.t
	}
	return c.lookup(context)
}

func (c *Contexts) lookup(context uint32) *table {
	if x := c.recent[context%recentTables]; x.context == context && x.t != nil {
		c.last = x
		return x.t
	}
	t := c.tables[context]
	if t == nil {
		if c.ended.IsStale(context) {
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
func (c *Contexts) isEnded(t *table) bool { return t == &c.endedTable }

// refuses reports whether messages of a context, whose table is t, are refused unless they have
// been matched: the context has ended, or this process has left it.
func (c *Contexts) refuses(context uint32, t *table) bool {
	return c.isEnded(t) || c.departures.left[context]
}

// remove takes the table of a context out of the map and the caches. It returns nil if there is
// none.
func (c *Contexts) remove(context uint32) *table {
	t := c.tables[context]
	if t == nil {
		return nil
	}
	delete(c.tables, context)
	c.recent[context%recentTables] = cachedTable{}
	c.last = cachedTable{noContext, &c.endedTable}
	return t
}
