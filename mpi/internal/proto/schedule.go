package proto

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/ibrun/ibrun/mpi/internal/wire"
	"github.com/ibrun/ibrun/perf"
)

// A Schedule is an operation that consists of steps: messages, and work of its [Program] between them. The engine does the steps
// whenever it makes progress. A schedule whose next step can be done waits in the queue of transfers. Any goroutine that makes
// progress takes it from there.
//
// Each message is a request without a handle, with the flag inSchedule. The request of the schedule itself completes after the
// last step.

// StepKind is the kind of a step of a schedule.
type StepKind uint8

// The kinds of steps.
const (
	StepSend  StepKind = iota + 1 // starts a send
	StepRecv                      // starts a receive
	StepWait                      // waits until all sends and receives before it have completed
	StepShort                     // calls Program.Do with the engine's lock: work of some microseconds at most
	StepLong                      // calls Program.Do without the lock, again and again while it returns ErrPartDone
	StepPause                     // waits until the schedule is advanced again
	StepPoll                      // calls Program.Do with the lock, again and again while it returns ErrNotYet or ErrPartDone
)

// Step is a step of a schedule.
type Step struct {
	Kind StepKind
	Peer int32  // process to send to, or to receive from; of StepPoll: that for which it waits, or ProcNull
	Rank int32  // of the sender
	Tag  int32  // of the message; 0: that of the schedule
	Buf  []byte // of a message, or what other steps write
	// Queue, of StepPoll: while a step cannot be done, those of later schedules of the context with the same Queue need not be
	// tried, since they come after it.
	Queue int
	// Sleepers, of StepPoll, counts in shared memory the processes that sleep until others store what Do reads; see WaitAtLeast.
	Sleepers *uint64
}

// What Program.Do returns for a step that has not been done.
var (
	ErrNotYet   = errors.New("the step cannot be done yet") // of a StepPoll
	ErrPartDone = errors.New("a part of the step has been done")
)

// Program has the steps of a schedule. Its methods are called by one goroutine at a time.
type Program interface {
	// Step returns step i. ok is false if there are no more. It is called with the engine's lock held.
	Step(i int) (s Step, ok bool)
	// Started is called with the engine's lock held when the schedule starts. It must not call the engine.
	Started()
	// Do does the work of step i. After an error no further step begins.
	Do(i int) error
	// Ended is called with the engine's lock held when the schedule has ended, with its error, before any call learns that it has.
	// If the context has ended during a StepLong, or before a StepPoll, the error is ErrContextEnded itself. Ended must not call the
	// engine, except WakePeerInStep.
	Ended(err error)
	// Abandoned is called with the engine's lock held when the engine fails with err while the schedule is in progress and its
	// context has not ended, before any call returns that error: the owner of the buffers may then use them for something else.
	// Another goroutine may be in Do of a StepLong. If one is when the context ends, Abandoned is called as well. Ended may follow.
	// Abandoned must not call the engine, except WakePeerInStep.
	Abandoned(err error)
}

// Schedule is the state of a schedule. The zero value can be started. It can be started again when it has ended.
type Schedule struct {
	program Program
	req     *Request
	tag     int32
	next    int    // the next step
	pending int    // messages that have been started and have not completed
	busy    bool   // a goroutine does steps
	began   uint64 // when it was started, if there is a trace
	polled  bool   // it is in polledSchedules
	long    bool   // while it is in progress, it is counted in background.long
	queue   int    // of its StepPoll, while polled
	number  uint64 // of all schedules of the engine that have been started, this one included
	// from is the process of the receive that was started last, or that for which a StepPoll waits; ProcNull: there is none.
	// fromRank is its rank, of a StepPoll.
	from, fromRank int32
	err            error // of the first step that has failed
}

// StartSchedule starts a schedule, and returns its request. The messages have the context, the tag and the operation of on, and
// on.Op is recorded with n bytes. If the schedule fails, this process leaves the context, except if all processes free it.
func (e *Engine) StartSchedule(on Route, n int, p Program, s *Schedule) Handle {
	e.lock()
	began := e.rec.Active.Begin(on.Op, n)
	h := e.newSchedule(on, n, p, s).handle()
	e.begin(s)
	e.rec.Active.End(on.Op, n, began)
	e.unlock()
	return h
}

// ScheduleInit returns a persistent request of a schedule, which is as in StartSchedule. Each Start starts it.
func (e *Engine) ScheduleInit(on Route, n int, p Program, s *Schedule) Handle {
	e.lock()
	defer e.unlock()
	r := e.newSchedule(on, n, p, s)
	r.makePersistent()
	return r.handle()
}

// newSchedule returns the active request of a schedule of n bytes.
func (e *Engine) newSchedule(on Route, n int, p Program, s *Schedule) *Request {
	r := e.requests.take(e)
	r.send, r.mode, r.route, r.status = true, Standard, on, emptyStatus
	r.route.Peer, r.route.Match = ProcNull, Match{Rank: AnySource, Tag: AnyTag} // no peer answers this request
	r.flags |= noCancel
	r.schedule = s
	*s = Schedule{program: p, req: r, tag: on.Tag, long: n >= longSchedule, from: ProcNull}
	return r
}

var errFailedBefore = fmt.Errorf("%w, or another cause made an earlier collective of this communicator fail", ErrFailed)

// restart starts the schedule of a persistent request, which is active.
func (e *Engine) restart(s *Schedule) {
	r := s.req
	r.err = nil
	if e.departures.left[r.route.Context] {
		s.err = errFailedBefore
	}
	e.begin(s)
}

// begin does the first steps of a schedule. It does no long one, and of a StepPoll one part at most, so that the call which
// starts the schedule returns soon.
func (e *Engine) begin(s *Schedule) {
	b := &e.background
	b.schedules++
	if s.long {
		b.long++
	}
	e.polled.started++
	s.number = e.polled.started
	s.began = e.rec.Active.TraceTime()
	s.program.Started()
	s.fail(e.failure.err) // no step begins: a call that waits would not wait for its end
	e.advance(s, false)
	e.startBackground()
}

// advance does the steps of a schedule until one has to wait for messages or for other processes, or the schedule has ended. If
// it is not to do long steps, the schedule waits in the queue of transfers before the first one.
func (e *Engine) advance(s *Schedule, long bool) {
	s.busy = true
	for s.err == nil {
		step, ok := s.program.Step(s.next)
		if (!ok || step.Kind == StepWait) && s.pending != 0 || step.Kind == StepPause {
			s.busy = false
			return
		}
		if !ok {
			break
		}
		switch step.Kind {
		case StepSend:
			s.fail(e.sendStep(s, step))
		case StepRecv:
			e.recvStep(s, step)
		case StepShort:
			began := e.rec.Active.TraceTime()
			s.fail(s.program.Do(s.next))
			e.traceSpan(s, perf.Step, began, len(step.Buf))
		case StepPoll:
			// The context may have ended while this schedule waited for a message; none begins in one that has.
			if long && e.contexts.ended.HasEnded(s.req.route.Context) {
				s.fail(ErrContextEnded)
				break
			}
			switch err := s.program.Do(s.next); err {
			case ErrNotYet, ErrPartDone:
				s.busy = false
				s.queue = step.Queue
				e.polled.add(e, s)
				return
			default:
				s.fail(err)
			}
		case StepLong:
			if !long || !e.doLong(s, len(step.Buf)) {
				s.busy = false
				e.transfers.pushSchedule(s)
				return
			}
		}
		s.next++
	}
	s.busy = false
	if s.err != nil && s.pending != 0 {
		e.cancelMessages(s)
	}
	if s.pending == 0 {
		e.endSchedule(s)
	}
}

// doLong does a part of a long step of n bytes, and reports whether the step has been done.
func (e *Engine) doLong(s *Schedule, n int) (done bool) {
	began := e.rec.Active.TraceTime()
	e.unlock()
	err := s.program.Do(s.next)
	e.lock()
	e.traceSpan(s, perf.Step, began, n)
	if e.contexts.ended.HasEnded(s.req.route.Context) {
		s.err, err = ErrContextEnded, nil
	}
	if err == ErrPartDone {
		return false
	}
	s.fail(err)
	return true
}

// pushSchedule queues a schedule whose next step can be done, unless it is queued.
func (q *transferQueue) pushSchedule(s *Schedule) {
	if t := &s.req.transfer; !t.queued {
		t.state = transferSchedule
		q.push(t)
	}
}

// traceSpan records what a schedule has done since began, with n bytes, if there is a trace.
func (e *Engine) traceSpan(s *Schedule, kind perf.EventKind, began uint64, n int) {
	on := &s.req.route
	e.rec.Span(kind, on.Context, on.Op, began, on.Tag, n)
}

// fail records the error of a step, unless it is nil. A message may have failed while the step was done.
func (s *Schedule) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// sendStep starts a send.
func (e *Engine) sendStep(s *Schedule, step Step) error {
	to := s.route(step)
	p := e.peer(to.Peer)
	if len(step.Buf) <= p.maxEager && (e.hints.plainSends || e.plainSendsIn(to.Context)) {
		wire.Envelope{Kind: wire.Eager, Context: to.Context, Match: to.Match}.Put(&e.scratch)
		if e.sendEager(p, step.Buf) == nil {
			p.link.Out(len(step.Buf))
			return nil
		}
	}
	r := e.messageOf(s, true, to, step.Buf)
	err := e.startSend(r)
	if err != nil { // r is free again
		r.schedule = nil
		s.pending--
	}
	return err
}

// recvStep starts a receive.
func (e *Engine) recvStep(s *Schedule, step Step) {
	s.from = step.Peer
	e.startRecv(e.messageOf(s, false, s.route(step), step.Buf))
}

// shownAs returns what the recorder shows while the program waits for a request in op: the operation, the process that it waits
// for, and the tag. An immediate collective is shown, with the process of which it needs a message.
func (r *Request) shownAs(op perf.Op) (shown perf.Op, peer, tag int32) {
	s := r.schedule
	switch {
	case s == nil:
		return op, r.route.Peer, r.route.Tag
	case op.IsWithin() || r.route.Op.Blocking() == r.route.Op:
		return op, s.from, -1
	}
	return r.route.Op, s.from, -1
}

// route returns the route of a message.
func (s *Schedule) route(step Step) Route {
	on := &s.req.route
	m := Match{Rank: step.Rank, Tag: cmp.Or(step.Tag, s.tag)}
	return Route{Context: on.Context, Peer: step.Peer, Match: m, Op: on.Op.Within()}
}

// messageOf returns a request of a schedule, which is to be started.
func (e *Engine) messageOf(s *Schedule, send bool, rt Route, b []byte) *Request {
	r := e.requests.take(e)
	r.send, r.mode, r.route, r.buf = send, Standard, rt, b
	r.flags |= inSchedule | detached
	r.schedule = s
	s.pending++
	return r
}

// messageEnded must be called when a message of a schedule has completed.
func (r *Request) messageEnded() {
	s := r.schedule
	r.schedule = nil
	s.pending--
	if r.err != nil && s.err == nil {
		s.err = r.err
		if failed, ok := r.err.(*OperationError); ok { // the request of the schedule has the same context
			s.err = failed.Err
		}
	} else if p, ok := s.program.(*partitioned); ok && !r.send && r.err == nil {
		p.arrived(r.route.Rank, r.route.Tag)
	}
	if s.req.schedule != s || s.req.state != active {
		return // a partitioned request has been paired, and was not started or was freed
	}
	if !s.busy && !s.polled && (s.pending == 0 || s.err != nil) { // pollSchedules continues one that is polled
		r.e.transfers.pushSchedule(s)
	}
}

// cancelMessages cancels the messages of a schedule that has failed. Those that have been matched complete.
func (e *Engine) cancelMessages(s *Schedule) {
	s.busy = true // the last one that completes does not queue the schedule
	for _, slab := range e.requests.slabs {
		for i := range slab {
			if r := &slab[i]; r.schedule == s && r != s.req && r.state == active {
				e.cancel(r)
			}
		}
	}
	s.busy = false
}

// abandon ends a schedule with err, without a step, when those of its messages that have been matched have completed. No
// goroutine may be doing a step of it.
func (e *Engine) abandon(s *Schedule, err error) {
	if t := &s.req.transfer; t.queued {
		e.transfers.remove(t)
		t.state = transferNone
	}
	s.fail(err)
	e.advance(s, false)
}

// endSchedule completes the request of a schedule. Other processes may wait for messages of one that has failed: they learn that
// none will come.
func (e *Engine) endSchedule(s *Schedule) {
	r, p, err := s.req, s.program, s.err
	e.traceSpan(s, perf.InProgress, s.began, 0)
	r.transfer.state = transferNone
	e.background.schedules--
	if s.long {
		e.background.long--
	}
	if err != nil && !errors.Is(err, ErrFreed) {
		e.leaveContext(r.route.Context)
	}
	if r.flags&persistent != 0 {
		s.next, s.err = 0, nil
	} else {
		r.schedule = nil
		*s = Schedule{}
	}
	p.Ended(err)
	e.complete(r, err)
	if len(e.polled.list) != 0 {
		e.waiters.rouseSleeper() // the next schedule of the context may have waited for this one
	}
}
