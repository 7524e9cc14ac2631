package proto

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/pollyield"
	"github.com/ibrun/ibrun/mpi/internal/match"
	"github.com/ibrun/ibrun/perf"
)

// Errors of operations. Others come from the transport, wrapped.
var (
	// ErrTruncate says that a message was longer than the buffer. The buffer holds its first part.
	ErrTruncate = errors.New("message longer than the buffer")
	// ErrStale says that a handle names a request that has been waited for or freed.
	ErrStale = errors.New("request has been completed or freed before")
	// ErrState says that a request cannot do this now: it is active, or not persistent.
	ErrState = errors.New("request is in the wrong state")
	// ErrContextEnded says that the context of a receive or probe has been forgotten.
	ErrContextEnded = errors.New("context has ended")
	// ErrFailed says that a process of the set was lost, so that nothing that waits can be sure to complete.
	ErrFailed = errors.New("a process was lost")
)

// Config says what an engine stands on.
type Config struct {
	// Domain carries the bytes. The engine closes it.
	Domain fabric.Domain
	// Self and Size are as in the domain's own Config.
	Self, Size int
	// Address tells the fabric address of a process; nil if the domain needs none.
	Address func(n int) []byte
	// Waker is the one whose Wake the domain was opened with.
	Waker Waker
	// Oversubscribed says that there are more processes than processors, so that spinning takes time from the one waited for.
	Oversubscribed bool
	// UnexpectedLimit bounds the bytes kept of messages that came before their receives; 0 means 64 MiB.
	UnexpectedLimit int
	// PinnedLimit bounds the bytes that stay registered with a device while no message needs them; 0 means 1 GiB.
	PinnedLimit int
	// Clock keeps the time; nil if nobody is to be asked for it.
	Clock ClockHandler
	// Warn is told what the user should know and no call fails for; it may be nil.
	Warn func(string)
	// Recorder is what writes down what the engine does; nil: nothing does.
	Recorder *perf.Recorder
	// Trace is where messages are written down, one by one; nil: nowhere.
	Trace *perf.Trace
	// Owner is what Engine.Owner returns: who stands on the engine.
	Owner any
	// Needed tells whether a process that has closed in order should not have, as others still count on it; nil: always. It is
	// called with the engine's lock held.
	Needed func(n int32) bool
}

// Engine carries the messages of one process. See the package comment.
type Engine struct {
	mu mutex

	self   int
	domain fabric.Domain
	router fabric.Router // nil if one domain reaches all
	ways   []*way
	pairer fabric.CooperativeCopier // nil if the domain offers none
	sharer fabric.SharedMemory      // nil likewise
	owner  any
	addr   func(int32) []byte
	peers  []*peer           // nil: nothing to do with it so far
	tables map[uint32]*table // by context
	dead   table             // stands for those of contexts that have ended: nothing waits in it
	ended  map[uint32]uint32 // by number, the last context of that number that ended
	before map[uint32]uint32 // likewise, while Expect has it that none has
	last   cached            // of those below, the one asked for last
	recent [recents]cached
	events [32]fabric.Event

	scratch  [maxHeader]byte // of the message being sent at once
	direct   direct
	idle     *Request // free list
	requests []*[slab]Request
	notes    *outgoing // free list
	backlog  []int32   // peers for which messages wait for room
	moves    moveQueue // blocks to be read or written
	store    store     // messages that came too early

	rec        *perf.Recorder // nil: nothing is recorded now
	book       *perf.Recorder // nil: nothing ever is
	trace      *perf.Trace    // nil: messages are not written down
	usual      uint64         // the kind of message that takes the short way, none if messages are written down
	times      ClockHandler
	report     func(string)
	complained bool // about registration

	hints    map[uint32]*Hints          // by context
	lanes    map[uint32]map[int32]*lane // by context and process
	bare     bool                       // no receive is announced, no length checked, and messages are not written down
	plain    bool                       // not broken, and no context has hints that change how messages are sent
	wantFrom int                        // length from which receives may be announced
	railed   bool                       // some context has a rail

	broken  error // set when a process was lost
	leaving bool  // all processes may leave now
	lefts   int   // how many have
	missed  func(int32) bool
	loans   loans // parts of the buffer for buffered sends

	spin     int // polls before the processor is offered to others
	offers   int // how often it was
	breath   pollyield.Timer
	parker   parker
	sleeping bool // somebody sleeps on the transport
	parked   int  // others that sleep on cond
	awake    int  // those that wait and poll meanwhile
	watches  []watch
	cond     sync.Cond
}

// New makes an engine and takes the domain over.
func New(c Config) (*Engine, error) {
	e := &Engine{
		mu:     newMutex(),
		self:   c.Self,
		domain: c.Domain,
		owner:  c.Owner,
		peers:  make([]*peer, c.Size),
		addr:   func(int32) []byte { return nil },
		spin:   spinAlone,
		tables: map[uint32]*table{},
		ended:  map[uint32]uint32{},
		before: map[uint32]uint32{},
		report: c.Warn,
		missed: c.Needed,
		rec:    c.Recorder,
		book:   c.Recorder,
		trace:  c.Trace,
		usual:  uint64(kindEager),
		times:  c.Clock,
	}
	if e.trace != nil {
		e.usual = noKind
	}
	e.last = cached{noContext, &e.dead}
	e.rehint()
	if c.Address != nil {
		e.addr = func(n int32) []byte { return c.Address(int(n)) }
	}
	if c.Oversubscribed {
		e.spin = spinCrowded
	}
	e.router, _ = c.Domain.(fabric.Router)
	e.pairer, _ = c.Domain.(fabric.CooperativeCopier)
	e.sharer, _ = c.Domain.(fabric.SharedMemory)
	e.cond.L = &e.mu
	routes := []fabric.Domain{c.Domain}
	if e.router != nil {
		routes = e.router.Routes()
	}
	for _, d := range routes {
		w, err := newWay(d, cmp.Or(c.PinnedLimit, 1<<30))
		if err != nil {
			return nil, err
		}
		e.ways = append(e.ways, w)
	}
	e.store.limit(c.UnexpectedLimit)
	return e, e.findBed(c.Waker)
}

// Owner is that of the configuration.
func (e *Engine) Owner() any { return e.owner }

// findBed finds out where to sleep: arming once tells whether the domain has a descriptor.
func (e *Engine) findBed(b Waker) error {
	fd, _, err := e.domain.Arm()
	if err != nil {
		return fmt.Errorf("arm the transport: %w", err)
	}
	if fd < 0 {
		e.parker = b.channel
		return nil
	}
	e.parker, err = newPollParker()
	return err
}

func (e *Engine) lock()   { e.mu.Lock() }
func (e *Engine) unlock() { e.mu.Unlock() }

// table pairs the messages and receives of one context.
type table = match.Table[Request, arrived]

// A context is a number that is used again, and says how often it was used before:
//
//	generation | number, [ContextBits] of it
//
// A message of an earlier use is not matched any more.
const ContextBits = 13

const recents = 16

// cached is an entry of the small table in front of the map of contexts.
type cached struct {
	context uint32
	t       *table
}

// table returns that of a context, also one that this process does not know of yet: another may be ahead. That of
// one that has ended is dead.
func (e *Engine) table(context uint32) *table {
	if e.last.context == context {
		return e.last.t
	}
	return e.lookup(context)
}

func (e *Engine) lookup(context uint32) *table {
	if c := e.recent[context%recents]; c.context == context && c.t != nil {
		e.last = c
		return c.t
	}
	t := e.tables[context]
	if t == nil {
		if e.stale(context) {
			return &e.dead
		}
		t = new(table)
		e.tables[context] = t
	}
	e.last = cached{context, t}
	e.recent[context%recents] = e.last
	return t
}

// stale tells whether a context has been forgotten. Generations are compared as they come round.
func (e *Engine) stale(context uint32) bool {
	ended, ok := e.ended[numberOf(context)]
	return ok && int32(context-ended) <= 0
}

func numberOf(context uint32) uint32 { return context & (1<<ContextBits - 1) }

// ExpectContext is called before processes agree on the generation of a context with this number; Agreed follows.
// Others may have used
// the number so often since it was used here that generations have come round, and the next looks like one that has ended. So
// nothing of that number counts as ended until the next is known, since its first messages may come before that.
func (e *Engine) ExpectContext(number uint32) {
	e.lock()
	defer e.unlock()
	if last, ok := e.ended[number]; ok {
		e.before[number] = last
		delete(e.ended, number)
	}
}

// ContextAgreed says which context it is. Those before have ended, and if this process does not take part in it, so has this one.
func (e *Engine) ContextAgreed(context uint32, joins bool) {
	e.lock()
	defer e.unlock()
	number := numberOf(context)
	last, ok := e.before[number]
	delete(e.before, number)
	e.ended[number] = context
	if joins {
		e.ended[number] = context - 1<<ContextBits
	}
	if ok && last != context {
		e.forget(last, ErrContextEnded) // what came late of it meanwhile
	}
}

// EndContext ends a context. Receives that wait in it complete with err, probes end with ErrEnded, as later calls do;
// messages that wait, or come later, are dropped.
func (e *Engine) EndContext(context uint32, err error) {
	e.lock()
	defer e.unlock()
	e.ended[numberOf(context)] = context
	e.forget(context, err)
}

func (e *Engine) forget(context uint32, err error) {
	t := e.tables[context]
	if t == nil {
		return
	}
	delete(e.tables, context)
	e.recent[context%recents] = cached{}
	e.last = cached{noContext, &e.dead}
	delete(e.hints, context)
	delete(e.lanes, context)
	e.rehint()
	t.Drain(
		func(r *Request) {
			if r.ends&announced != 0 {
				e.revoke(r, err)
			} else {
				e.complete(r, err)
			}
		},
		func(m *arrived) {
			e.answer(m.peer, m.v.kind, m.w)
			e.ignore(m)
			e.drop(m)
		})
	e.unpark()
}

// answer lets the sender of a message that nobody will receive go on.
func (e *Engine) answer(peer int32, k kind, w [5]uint64) {
	switch k {
	case kindSync:
		e.note(peer, envelope{kind: kindFin}, w[0])
	case kindOffer:
		e.note(peer, envelope{kind: kindFin}, w[3])
	}
}

// QueueLengths tells how many receives and messages wait in a context.
func (e *Engine) QueueLengths(context uint32) (receives, messages int) {
	e.lock()
	defer e.unlock()
	return e.table(context).Lengths()
}

// fail notes that a process was lost. Everything that waits ends with an error, unless the process has closed in order
// and is not missed: then only what is sent to it from now on fails. n is -1 where it is this process that cannot go on.
func (e *Engine) fail(n int32, err error) {
	if e.broken != nil || n >= 0 && e.peer(n).left != nil {
		return
	}
	if n < 0 {
		err = fmt.Errorf("%w: this one, as its transport has failed: %w", ErrFailed, err)
	} else {
		err = fmt.Errorf("%w: process %d: %w", ErrFailed, n, err)
	}
	if n >= 0 && errors.Is(err, fabric.ErrPeerClosed) && (e.leaving || e.missed != nil && !e.missed(n)) {
		p := e.peer(n)
		p.left = err
		p.reopen()
		e.lefts++
		e.forgotBy(n)
	} else {
		e.broken, e.plain = err, false
	}
	e.unpark()
}

// Abort breaks the engine: every call that waits, and every later one, fails with err.
func (e *Engine) Abort(err error) {
	e.lock()
	if e.broken == nil {
		e.broken, e.plain = fmt.Errorf("%w: %w", ErrFailed, err), false
	}
	e.unpark()
	e.unlock()
}

// AllowFinalize says that from now on processes may close without being missed.
func (e *Engine) AllowFinalize() {
	e.lock()
	e.leaving = true
	e.unlock()
}

// FlushSends waits until everything that this process sends has gone.
func (e *Engine) FlushSends() error {
	e.lock()
	defer e.unlock()
	defer e.book.Leave(e.rec.Enter(perf.Finalize, -1, -1, 0))
	g := goal{what: settled}
	e.await(&g)
	if !g.met(e) {
		return e.broken
	}
	return nil
}

// Close closes the domain. No other call may be under way.
func (e *Engine) Close() error {
	e.lock()
	defer e.unlock()
	e.tally()
	var errs []error
	for _, w := range e.ways {
		if w.pins != nil {
			errs = append(errs, w.pins.Close())
		}
	}
	return errors.Join(append(errs, e.domain.Close(), e.parker.close())...)
}

// CanShareMemory tells whether processes may share memory.
func (e *Engine) CanShareMemory() bool { return e.sharer != nil }

// MapSegment maps memory shared with peers, as [fabric.SharedMemory] does, and waits for them.
func (e *Engine) MapSegment(op perf.Op, id uint64, peers []int, bytes int) (fabric.Segment, error) {
	e.lock()
	defer e.unlock()
	defer e.book.Leave(e.rec.Enter(op, -1, -1, bytes))
	m := &mapping{sharer: e.sharer, id: id, peers: peers, bytes: bytes}
	if len(peers) != 0 && peers[0] != e.self { // nothing wakes the first one, which has at most to wait for room
		e.await(&goal{what: mapped, mapping: m})
	}
	for !m.tried() {
		if err := e.poke(); err != nil {
			return nil, err
		}
		e.unlock()
		runtime.Gosched()
		yieldProcessor()
		e.lock()
	}
	return m.seg, m.err
}

// mapping is a segment that a goroutine waits for.
type mapping struct {
	sharer fabric.SharedMemory
	id     uint64
	peers  []int
	bytes  int
	over   bool // seg and err are what came of it
	seg    fabric.Segment
	err    error
}

// tried tries once more, and tells whether it has come to an end.
func (m *mapping) tried() bool {
	if !m.over {
		m.seg, m.err = m.sharer.Segment(m.id, m.peers, m.bytes)
		m.over = m.err != fabric.ErrAgain
	}
	return m.over
}

// WakePeer wakes a process that may wait for a word of a segment.
func (e *Engine) WakePeer(n int) {
	e.lock()
	e.sharer.Wake(n)
	e.unlock()
}
