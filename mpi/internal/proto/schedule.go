package proto

import (
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
	r := e.requests.take()
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
	b := &e.waiters.background
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
	e.waiters.startBackground()
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

// sendStep starts a send.
func (e *Engine) sendStep(s *Schedule, step Step) error {
	to := s.route(step)
	p := e.links.peer(to.Peer)
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

// messageOf returns a request of a schedule, which is to be started.
func (e *Engine) messageOf(s *Schedule, send bool, rt Route, b []byte) *Request {
	r := e.requests.take()
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
	e.waiters.background.schedules--
	if s.long {
		e.waiters.background.long--
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
	e.requests.complete(r, err)
	if len(e.polled.list) != 0 {
		e.waiters.rouseSleeper() // the next schedule of the context may have waited for this one
	}
}
