package proto

import (
	"cmp"
	"errors"
)

// StepKind is the kind of a step of a schedule.
type StepKind uint8

// The kinds of steps. Do of a StepLong is called again and again while it returns ErrPartDone, and
// that of a StepPoll while it returns ErrNotYet or ErrPartDone.
const (
	StepSend  StepKind = iota + 1 // starts a send
	StepRecv                      // starts a receive
	StepWait                      // waits until all sends and receives before it have completed
	StepShort                     // calls Program.Do with the engine's lock, for microseconds
	StepLong                      // calls Program.Do without the lock
	StepPause                     // waits until the schedule is advanced again
	StepPoll                      // calls Program.Do with the lock, for microseconds
)

// Step is a step of a schedule.
type Step struct {
	Kind StepKind
	Peer int32  // process to send to or receive from; of StepPoll: that it waits for, or ProcNull
	Rank int32  // of the sender
	Tag  int32  // of the message; 0: that of the schedule
	Buf  []byte // of a message, or what other steps write
	// Queue, of StepPoll: while a step cannot be done, those of later schedules of the context with
	// the same Queue need not be tried, since they come after it.
	Queue int
	// Sleepers, of StepPoll, counts in shared memory the processes that sleep until others store
	// what Do reads; see WaitAtLeast.
	Sleepers *uint64
}

// What Program.Do returns for a step that has not been done.
var (
	ErrNotYet   = errors.New("the step cannot be done yet") // of a StepPoll
	ErrPartDone = errors.New("a part of the step has been done")
)

// Program has the steps of a schedule. Its methods are called by one goroutine at a time.
type Program interface {
	// Step returns step i. ok is false if there are no more. It is called with the engine's lock
	// held.
	Step(i int) (s Step, ok bool)
	// Started is called with the engine's lock held when the schedule starts. It must not call the
	// engine.
	Started()
	// Do does the work of step i. After an error no further step begins.
	Do(i int) error
	// Ended is called with the engine's lock held when the schedule has ended, with its error,
	// before any call learns that it has. If the context has ended during a StepLong, or before a
	// StepPoll, the error is ErrContextEnded itself. Ended must not call the engine, except
	// Segments.WakeInStep.
	Ended(err error)
	// Abandoned is called with the engine's lock held when the engine fails with err while the
	// schedule is in progress, and its context has not ended. That is before any call returns the
	// error, because the owner of the buffers may then use them for something else. Another
	// goroutine may be in Do of a StepLong. If one is when the context ends, Abandoned is called as
	// well. Ended may follow. Abandoned must not call the engine, except Segments.WakeInStep.
	Abandoned(err error)
}

// Schedule is the state of a schedule. The zero value can be started. It can be started again when
// it has ended.
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
	// from is the process of the receive that was started last, or that for which a StepPoll waits;
	// ProcNull: there is none. fromRank is its rank, of a StepPoll.
	from, fromRank int32
	err            error // of the first step that has failed
}

// fail records the error of a step, unless it is nil. A message may have failed while the step was
// done.
func (s *Schedule) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// route returns the route of a message.
func (s *Schedule) route(step Step) Route {
	on := &s.req.route
	m := Match{Rank: step.Rank, Tag: cmp.Or(step.Tag, s.tag)}
	return Route{Context: on.Context, Peer: step.Peer, Match: m, Op: on.Op.Within()}
}
