package proto

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/mpi/internal/notes"
	"github.com/ibrun/ibrun/mpi/internal/proto/internal/lock"
	"github.com/ibrun/ibrun/mpi/internal/proto/internal/record"
	"github.com/ibrun/ibrun/mpi/internal/protocols"
	"github.com/ibrun/ibrun/mpi/internal/wire"
	"github.com/ibrun/ibrun/perf"
)

// Errors of operations. Other errors come from the transport, wrapped.
var (
	// ErrTruncate reports that a message was longer than the receive buffer. The buffer holds the
	// beginning of the message.
	ErrTruncate = errors.New("message longer than the buffer")
	// ErrStale reports that a handle names a request that has been completed by a wait, or freed.
	ErrStale = errors.New("request has been completed or freed before")
	// ErrState reports that a request cannot do this now: it is active, or not persistent.
	ErrState = errors.New("request is in the wrong state")
	// ErrFreed reports that the communicator of an operation was freed, here or at the process that
	// the operation needs.
	ErrFreed = errors.New("the communicator has been freed")
	// ErrContextEnded is an ErrFreed: the context had ended before the operation, or its next step,
	// began. For a schedule it means that shared memory of its steps may be unmapped. Operations in
	// progress when a context ends get the error of Contexts.End.
	ErrContextEnded = fmt.Errorf("%w", ErrFreed)
	// ErrFailed reports that the engine has failed because a process was lost: no pending operation
	// is sure to complete.
	ErrFailed = errors.New("a process was lost")
)

// Config is the configuration of an Engine.
type Config struct {
	// Domain carries the bytes. The engine closes it.
	Domain fabric.Domain
	// Self and Size are those of the domain's own Config.
	Self, Size int
	// Address returns the fabric address of a process; nil if the domain needs none.
	Address func(n int) []byte
	// Waker is the one whose Wake method the domain was opened with.
	Waker Waker
	// Oversubscribed reports whether there are more processes than processors. Spinning then takes
	// time from the process that is waited for.
	Oversubscribed bool
	// Poll is how long a goroutine that waits polls before it sleeps. Nil: for some hundred yields.
	Poll *time.Duration
	// UnexpectedLimit bounds the bytes of stored unexpected messages; 0 means 64 MiB.
	UnexpectedLimit int
	// PinnedLimit bounds the bytes that stay registered with a device while no message uses them; 0
	// means regcache.DefaultLimit.
	PinnedLimit int
	// Clock handles clock messages; nil if there is no common clock.
	Clock ClockHandler
	// Warn reports to the user a condition that makes no call fail; it may be nil.
	Warn func(string)
	// ExactBit is set in contexts in which every message has the length of its receive: those of
	// collectives. 0: there are none.
	ExactBit uint32
	// Forced is the protocol of messages to be sent; nil: the engine chooses it for each. It may
	// differ between processes.
	Forced *protocols.Forced
	// Checks makes messages carry notes, which are compared with those of their receives. It is the
	// same at all processes.
	Checks bool
	// Recorder records what the engine does; nil if nothing is recorded.
	Recorder *perf.Recorder
	// Trace records every message; nil if messages are not traced.
	Trace *perf.Trace
	// Owner is the value that Engine.Owner returns: the user of the engine.
	Owner any
	// Needed reports whether a process that is lost was still needed, so that this counts as its
	// failure. closed says that it has closed in order. nil means always. It is called with the
	// engine's lock held.
	Needed func(n int32, closed bool) bool
	// Members returns the processes with which this one communicates in a context; nil for an
	// unknown context, or if Members is nil. It is called with the engine's lock held.
	Members func(context uint32) []int32
}

// Engine carries the messages of one process. See the package comment.
type Engine struct {
	mu lock.Mutex

	owner any

	links    links
	contexts Contexts
	poller   poller

	scratch    [wire.MaxHeader]byte // header of an eager message that is sent immediately
	requests   Requests
	probes     Probes
	sending    datatype.Buffer // data in parts of an eager message that is sent immediately
	transfers  transfers
	sends      sends
	receives   receives
	schedules  Schedules
	unexpected unexpectedStore

	rec record.Recording

	hints   hintSet
	failure failures

	waiters  waiters
	buffered AttachedBuffer
	checks   Checks
	clock    Clock
	segments Segments

	departures departures
	processes  Processes
	flushes    flushes
}

// New returns an engine for a domain, which belongs to the engine from now on.
func New(c Config) (*Engine, error) {
	e := &Engine{mu: lock.New(), owner: c.Owner}
	e.rec = record.New(&e.mu, c.Recorder, c.Trace, c.Checks, c.ExactBit)
	e.joinMessageParts()
	e.joinParts()
	e.failure.needed = c.Needed
	e.contexts.init()
	e.hints.exactBit, e.hints.forced = c.ExactBit, c.Forced
	e.hints.update(false, e.rec.General)
	if c.Checks {
		e.checks.table = notes.NewTable()
	}
	e.clock.handler = c.Clock
	e.segments.domain, _ = c.Domain.(fabric.SharedMemory)
	e.departures.init(c.Members)
	e.unexpected.setLimit(c.UnexpectedLimit)
	e.waiters.init(c.Oversubscribed, c.Poll)
	if err := e.links.open(&c); err != nil {
		return nil, err
	}
	return e, e.waiters.open(c.Domain, c.Waker)
}

// joinMessageParts gives each part that carries messages what it needs of the others: pointers and
// functions, which are called only when all parts are complete.
func (e *Engine) joinMessageParts() {
	l := &e.links
	l.rec, l.hints, l.failure = &e.rec, &e.hints, &e.failure
	l.notified = notified{finished: e.sends.messageFinished, closed: e.peerClosed, failed: e.failed}
	t := &e.transfers
	t.mu, t.links, t.requests, t.hints, t.rec = &e.mu, l, &e.requests, &e.hints, &e.rec
	e.sends = sends{t, &e.checks.table, &e.buffered.buffer}
	e.receives = receives{t, &e.contexts, &e.unexpected, &e.checks.table, &e.waiters.general}
	u := &e.unexpected
	u.links, u.rec, u.notes = l, &e.rec, &e.checks.table
	e.departures = departures{
		links: l, sends: &e.sends, receives: &e.receives, waiters: &e.waiters, polled: &e.schedules.polled,
		ended: &e.contexts.ended, rec: &e.rec,
	}
	e.flushes.links = l
	e.poller = poller{
		waiters: &e.waiters, links: l, transfers: t, sends: &e.sends, receives: &e.receives, schedules: &e.schedules,
		rerouted: e.reroute, idle: e.departures.idlePoll,
		in: dispatcher{
			rec: &e.rec, links: l, contexts: &e.contexts, requests: &e.requests, sends: &e.sends,
			receives: &e.receives, unexpected: &e.unexpected, departures: &e.departures, flushes: &e.flushes,
			checks: &e.checks, clock: &e.clock,
		},
	}
}

// joinParts does the same for the other parts, which wait, or have calls of their own.
func (e *Engine) joinParts() {
	w, s := &e.waiters, &e.schedules
	w.mu, w.failure, w.rec, w.transfers = &e.mu, &e.failure, &e.rec, &e.transfers.transferQueue
	w.do = actions{
		progress: e.poller.progress, transfer: e.poller.transfer, flush: e.links.combining.flush,
		arm: e.poller.arm, disarmed: s.polled.uncountSleeper,
		beforeSleep: func() { recordTransports(e.rec.Active, e.links.paths) },
		fail:        e.links.fail, reached: e.reached, hopeless: e.departures.errorOf,
		watchIfDue: e.departures.watchIfDue, startWatchTimer: e.departures.startWatchTimer,
	}
	e.requests = Requests{
		mu: &e.mu, rec: &e.rec, waiters: w, poller: &e.poller, attached: &e.buffered.buffer, engine: e,
		contexts: &e.contexts.ended, messageEnded: s.messageEnded, cancel: e.cancel,
	}
	s.mu, s.rec, s.requests, s.waiters, s.transfers = &e.mu, &e.rec, &e.requests, w, &e.transfers.transferQueue
	s.poller, s.contexts, s.departures = &e.poller, &e.contexts.ended, &e.departures
	s.messaging = messaging{sendNow: e.sendPlain, send: e.sends.start, recv: e.receives.start, leave: e.contexts.leave}
	p := &e.probes
	p.mu, p.rec, p.waiters, p.poller, p.requests = &e.mu, &e.rec, w, &e.poller, &e.requests
	p.contexts, p.departures, p.receives = &e.contexts, &e.departures, &e.receives
	e.buffered.mu, e.buffered.waiters = &e.mu, w
	e.processes = Processes{&e.mu, &e.links, &e.departures, &e.contexts, w, &e.poller}
	e.clock.mu, e.clock.links = &e.mu, &e.links
	m := &e.segments
	m.mu, m.rec, m.waiters, m.poller, m.links = &e.mu, &e.rec, w, &e.poller, &e.links
	c := &e.checks
	c.mu, c.links, c.requests, c.unexpected, c.waiters = &e.mu, &e.links, &e.requests, &e.unexpected, w
	c.poller = &e.poller
	x := &e.contexts
	x.mu, x.rec, x.waiters, x.requests, x.schedules = &e.mu, &e.rec, w, &e.requests, s
	x.departures, x.receives, x.unexpected, x.hints = &e.departures, &e.receives, &e.unexpected, &e.hints
	x.rtr, x.notes = &e.transfers.rtr, &e.checks.table
}

// Owner returns the Owner of the configuration.
func (e *Engine) Owner() any { return e.owner }

func (e *Engine) lock()   { e.mu.Lock() }
func (e *Engine) unlock() { e.mu.Unlock() }

// FlushSends blocks until the transport has taken all messages of this process and no transfer is
// left to be moved.
func (e *Engine) FlushSends() error {
	e.lock()
	defer e.unlock()
	defer e.rec.Configured.Leave(e.rec.Active.Enter(perf.Finalize, -1, -1, 0))
	e.links.combining.flush()
	g := goal{watch: watch{what: sendsFlushed}}
	e.waiters.await(&g)
	if !e.waiters.reached(&g) {
		return e.failure.err
	}
	return nil
}

// Finish is Close for a process that has not failed. If the only error is that something was not
// released, Finish warns of it, and returns it only if nobody can be warned. The kernel releases it
// when the process ends, so it is not a reason to fail. With any other error Finish returns all of
// them: messages may not have arrived, because the domain waits for that when it is closed.
func (e *Engine) Finish() error {
	err := e.Close()
	if err == nil || e.links.warn == nil || !onlyUnreleased(err) {
		return err
	}
	e.links.warn("not everything was released at the end, which does not affect the job: " + oneLine(err))
	return nil
}

// onlyUnreleased reports whether all errors that err joins are fabric.ErrNotReleased.
func onlyUnreleased(err error) bool {
	switch x := err.(type) {
	case interface{ Unwrap() []error }:
		all := x.Unwrap()
		return slices.Contains(all, fabric.ErrNotReleased) ||
			!slices.ContainsFunc(all, func(err error) bool { return !onlyUnreleased(err) })
	case interface{ Unwrap() error }:
		return onlyUnreleased(x.Unwrap())
	}
	return err == fabric.ErrNotReleased
}

// Close closes the domain, and the channels of requests that have not completed. No other call may
// be in progress. The error also tells of memory that was not deregistered, now or before.
func (e *Engine) Close() error {
	e.lock()
	defer e.unlock()
	e.requests.stopChannels()
	e.waiters.stopBackground()
	e.departures.closed = true
	recordTransports(e.rec.Active, e.links.paths)
	var errs []error
	for _, x := range e.links.paths {
		if x.regs != nil {
			if err := x.regs.Close(); err != nil {
				errs = append(errs, fmt.Errorf("%w: %w", fabric.ErrNotReleased, err))
			}
		}
	}
	return errors.Join(append(errs, e.links.domain.Close(), e.waiters.parker.Close())...)
}

// oneLine returns the text of an error of several lines as one, without repetitions.
func oneLine(err error) string {
	var lines []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "; ")
}
