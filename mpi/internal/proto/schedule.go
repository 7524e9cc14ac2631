package proto

import (
	"errors"
	"fmt"

	"github.com/ibrun/ibrun/mpi/internal/proto/internal/ended"
	"github.com/ibrun/ibrun/mpi/internal/proto/internal/lock"
	"github.com/ibrun/ibrun/mpi/internal/proto/internal/record"
	"github.com/ibrun/ibrun/perf"
)

// A Schedule is an operation that consists of steps: messages, and work of its [Program] between
// them. The engine does the steps whenever it makes progress. A schedule whose next step can be
// done waits in the queue of transfers. Any goroutine that makes progress takes it from there.
//
// Each message is a request without a handle, with the flag inSchedule. The request of the schedule
// itself completes after the last step.

// Schedules are the schedules of an engine. They know no transport: the steps that are messages
// begin by functions of the engine.
type Schedules struct {
	mu         *lock.Mutex // of the engine
	rec        *record.Recording
	requests   *Requests
	waiters    *waiters
	poller     *poller
	transfers  *transferQueue
	contexts   *ended.Contexts
	departures *departures
	messaging  messaging

	polled polledSchedules
	pairs  pairs
}

// messaging are what schedules need of the engine for their messages. It is called with the lock.
type messaging struct {
	// sendNow sends a message if it is short and need not wait, and reports whether it has.
	sendNow func(to Route, b []byte) bool
	send    func(*Request) error // starts a send; see sends.start
	recv    func(*Request)       // starts a receive; see receives.start
	// leave tells other processes that none of this one's messages will come in a context.
	leave func(context uint32)
}

// Schedules returns the schedules of the engine.
func (e *Engine) Schedules() *Schedules { return &e.schedules }

// Start starts a schedule, and returns its request. The messages have the context, the tag and the
// operation of on, and on.Op is recorded with n bytes. If the schedule fails, this process leaves
// the context, except if all processes free it.
func (ss *Schedules) Start(on Route, n int, p Program, s *Schedule) Handle {
	ss.mu.Lock()
	began := ss.rec.Active.Begin(on.Op, n)
	h := ss.new(on, n, p, s).handle()
	ss.begin(s)
	ss.rec.Active.End(on.Op, n, began)
	ss.mu.Unlock()
	return h
}

// Init returns a persistent request of a schedule, which is as in Start. Each Engine.Start starts
// it.
func (ss *Schedules) Init(on Route, n int, p Program, s *Schedule) Handle {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	r := ss.new(on, n, p, s)
	ss.requests.makePersistent(r)
	return r.handle()
}

// new returns the active request of a schedule of n bytes.
func (ss *Schedules) new(on Route, n int, p Program, s *Schedule) *Request {
	r := ss.requests.take()
	r.send, r.mode, r.route, r.status = true, Standard, on, emptyStatus
	// No peer answers this request.
	r.route.Peer, r.route.Match = ProcNull, Match{Rank: AnySource, Tag: AnyTag}
	r.flags |= noCancel
	r.schedule = s
	*s = Schedule{program: p, req: r, tag: on.Tag, long: n >= longSchedule, from: ProcNull}
	return r
}

var errFailedBefore = fmt.Errorf("%w, or another cause made an earlier collective of this communicator fail", ErrFailed)

// restart starts the schedule of a persistent request, which is active.
func (ss *Schedules) restart(s *Schedule) {
	r := s.req
	r.err = nil
	if ss.departures.left[r.route.Context] {
		s.err = errFailedBefore
	}
	ss.begin(s)
}

// begin does the first steps of a schedule. It does no long one, and of a StepPoll one part at
// most, so that the call which starts the schedule returns soon.
func (ss *Schedules) begin(s *Schedule) {
	b := &ss.waiters.background
	b.schedules++
	if s.long {
		b.long++
	}
	ss.polled.started++
	s.number = ss.polled.started
	s.began = ss.rec.Active.TraceTime()
	s.program.Started()
	s.fail(ss.waiters.failure.err) // no step begins: a call that waits would not wait for its end
	ss.advance(s, false)
	ss.waiters.startBackground()
}

// advance does the steps of a schedule until one has to wait for messages or for other processes,
// or the schedule has ended. If it is not to do long steps, the schedule waits in the queue of
// transfers before the first one.
func (ss *Schedules) advance(s *Schedule, long bool) {
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
			s.fail(ss.sendStep(s, step))
		case StepRecv:
			ss.recvStep(s, step)
		case StepShort:
			began := ss.rec.Active.TraceTime()
			s.fail(s.program.Do(s.next))
			ss.traceSpan(s, perf.Step, began, len(step.Buf))
		case StepPoll:
			// The context may have ended while this schedule waited for a message; none begins in
			// one that has.
			if long && ss.contexts.HasEnded(s.req.route.Context) {
				s.fail(ErrContextEnded)
				break
			}
			switch err := s.program.Do(s.next); err {
			case ErrNotYet, ErrPartDone:
				s.busy = false
				s.queue = step.Queue
				ss.polled.add(ss.waiters, s)
				return
			default:
				s.fail(err)
			}
		case StepLong:
			if !long || !ss.doLong(s, len(step.Buf)) {
				s.busy = false
				ss.transfers.pushSchedule(s)
				return
			}
		}
		s.next++
	}
	s.busy = false
	if s.err != nil && s.pending != 0 {
		ss.cancelMessages(s)
	}
	if s.pending == 0 {
		ss.end(s)
	}
}

// doLong does a part of a long step of n bytes, and reports whether the step has been done.
func (ss *Schedules) doLong(s *Schedule, n int) (done bool) {
	began := ss.rec.Active.TraceTime()
	ss.mu.Unlock()
	err := s.program.Do(s.next)
	ss.mu.Lock()
	ss.traceSpan(s, perf.Step, began, n)
	if ss.contexts.HasEnded(s.req.route.Context) {
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
func (ss *Schedules) traceSpan(s *Schedule, kind perf.EventKind, began uint64, n int) {
	on := &s.req.route
	ss.rec.Span(kind, on.Context, on.Op, began, on.Tag, n)
}

// sendStep starts a send.
func (ss *Schedules) sendStep(s *Schedule, step Step) error {
	to := s.route(step)
	if ss.messaging.sendNow(to, step.Buf) {
		return nil
	}
	r := ss.messageOf(s, true, to, step.Buf)
	err := ss.messaging.send(r)
	if err != nil { // r is free again
		r.schedule = nil
		s.pending--
	}
	return err
}

// recvStep starts a receive.
func (ss *Schedules) recvStep(s *Schedule, step Step) {
	s.from = step.Peer
	ss.messaging.recv(ss.messageOf(s, false, s.route(step), step.Buf))
}

// shownAs returns what the recorder shows while the program waits for a request in op: the
// operation, the process that it waits for, and the tag. An immediate collective is shown, with the
// process of which it needs a message.
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

// messageOf returns a request of a schedule, which is to be started.
func (ss *Schedules) messageOf(s *Schedule, send bool, rt Route, b []byte) *Request {
	r := ss.requests.take()
	r.send, r.mode, r.route, r.buf = send, Standard, rt, b
	r.flags |= inSchedule | detached
	r.schedule = s
	s.pending++
	return r
}

// messageEnded must be called when a message of a schedule has completed.
func (ss *Schedules) messageEnded(r *Request) {
	s := r.schedule
	r.schedule = nil
	s.pending--
	if r.err != nil && s.err == nil {
		s.err = r.err
		// The request of the schedule has the same context.
		if failed, ok := r.err.(*OperationError); ok {
			s.err = failed.Err
		}
	} else if p, ok := s.program.(*partitioned); ok && !r.send && r.err == nil {
		p.arrived(r.route.Rank, r.route.Tag)
	}
	if s.req.schedule != s || s.req.state != active {
		return // a partitioned request has been paired, and was not started or was freed
	}
	// Schedules.poll continues one that is polled.
	if !s.busy && !s.polled && (s.pending == 0 || s.err != nil) {
		ss.transfers.pushSchedule(s)
	}
}

// cancelMessages cancels the messages of a schedule that has failed. Those that have been matched
// complete.
func (ss *Schedules) cancelMessages(s *Schedule) {
	s.busy = true // the last one that completes does not queue the schedule
	for _, slab := range ss.requests.slabs {
		for i := range slab {
			if r := &slab[i]; r.schedule == s && r != s.req && r.state == active {
				ss.requests.cancel(r)
			}
		}
	}
	s.busy = false
}

// abandon ends a schedule with err, without a step, when those of its messages that have been
// matched have completed. No goroutine may be doing a step of it.
func (ss *Schedules) abandon(s *Schedule, err error) {
	if t := &s.req.transfer; t.queued {
		ss.transfers.remove(t)
		t.state = transferNone
	}
	s.fail(err)
	ss.advance(s, false)
}

// end completes the request of a schedule. Other processes may wait for messages of one that has
// failed: they learn that none will come.
func (ss *Schedules) end(s *Schedule) {
	r, p, err := s.req, s.program, s.err
	ss.traceSpan(s, perf.InProgress, s.began, 0)
	r.transfer.state = transferNone
	ss.waiters.background.schedules--
	if s.long {
		ss.waiters.background.long--
	}
	if err != nil && !errors.Is(err, ErrFreed) {
		ss.messaging.leave(r.route.Context)
	}
	if r.flags&persistent != 0 {
		s.next, s.err = 0, nil
	} else {
		r.schedule = nil
		*s = Schedule{}
	}
	p.Ended(err)
	ss.requests.complete(r, err)
	if len(ss.polled.list) != 0 {
		ss.waiters.rouseSleeper() // the next schedule of the context may have waited for this one
	}
}
