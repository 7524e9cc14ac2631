package proto

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

// script is a program of given steps.
type script struct {
	steps []scriptStep
	ended chan error
	// abandoned is the error with which the engine has failed meanwhile; it is protected by the
	// engine's lock.
	abandoned error
}

type scriptStep struct {
	Step
	do func() error
}

func (s *script) Step(i int) (Step, bool) {
	if i == len(s.steps) {
		return Step{}, false
	}
	return s.steps[i].Step, true
}

func (s *script) Do(i int) error { return s.steps[i].do() }

func (s *script) Ended(err error) { s.ended <- err }

func (s *script) Started()            {}
func (s *script) Abandoned(err error) { s.abandoned = err }

func (s *script) start(e *Engine, tag int32) Handle {
	s.ended = make(chan error, 1)
	on := Route{Context: testContext, Match: Match{Tag: tag}}
	return e.Schedules().Start(on, 0, s, new(Schedule))
}

func sendStep(self, peer int, b []byte) scriptStep {
	return scriptStep{Step: Step{Kind: StepSend, Peer: int32(peer), Rank: int32(self), Buf: b}}
}

func recvStep(peer int, b []byte) scriptStep {
	return scriptStep{Step: Step{Kind: StepRecv, Peer: int32(peer), Rank: int32(peer), Buf: b}}
}

func waitStep() scriptStep { return scriptStep{Step: Step{Kind: StepWait}} }

func doStep(kind StepKind, f func() error) scriptStep { return scriptStep{Step{Kind: kind}, f} }

// passing passes n bytes around a ring of all processes: each adds 1 to them.
func passing(self, size, n int, e *Engine) (*script, []byte) {
	in, out := make([]byte, n), make([]byte, n)
	next, before := (self+1)%size, (self+size-1)%size
	add := func() error {
		for i := range in {
			out[i] = in[i] + 1
		}
		return nil
	}
	poll := func() error { return e.Poll() } // the lock is free
	s := &script{steps: []scriptStep{recvStep(before, in), waitStep(), doStep(StepShort, add), doStep(StepLong, poll),
		sendStep(self, next, out)}}
	if self == 0 {
		s.steps = []scriptStep{doStep(StepShort, add), recvStep(before, in), sendStep(self, next, out), waitStep(), waitStep(),
			doStep(StepLong, poll), doStep(StepLong, add)}
	}
	return s, out
}

// TestSchedule does the steps of schedules in order, several at once, with short and long messages,
// over all variants of the transport.
func TestSchedule(t *testing.T) {
	for _, tw := range []variant{{}, {noRead: true}, {refuse: true}, {pairing: true}, {fragments: true}, {scarce: true}} {
		t.Run(fmt.Sprintf("%+v", tw), func(t *testing.T) {
			es := open(t, 3, tw.wrap, nil)
			each(t, es, func(self int, e *Engine) error {
				var outs [][]byte
				var hs []Handle
				for round, n := range []int{0, 1, 3000, 200_000, 8, 1 << 20} {
					s, out := passing(self, len(es), n, e)
					hs, outs = append(hs, s.start(e, int32(round))), append(outs, out)
				}
				for i := range hs {
					i = len(hs) - 1 - i
					if st, err := e.Requests().Wait(hs[i]); err != nil || st != emptyStatus {
						return fmt.Errorf("schedule %d: %+v, %w", i, st, err)
					}
					want := byte(self + 1)
					if self == 0 {
						want = byte(len(es) + 1)
					}
					if !bytes.Equal(outs[i], bytes.Repeat([]byte{want}, len(outs[i]))) {
						return fmt.Errorf("schedule %d is wrong, or has other than %d", i, want)
					}
				}
				return nil
			})
			for i, e := range es {
				if e.requests.activeIn(testContext, false) {
					t.Errorf("engine %d has requests", i)
				}
			}
		})
	}
}

// TestScheduleAbandoned: when the engine fails, the programs of schedules in progress have learned
// of it before a call returns the error, whatever the schedules wait for. Those of others do not.
func TestScheduleAbandoned(t *testing.T) {
	e := open(t, 2, nil, nil)[0]
	poll := func() error { return ErrNotYet }
	polled := &script{steps: []scriptStep{{Step{Kind: StepPoll, Peer: ProcNull, Sleepers: new(uint64)}, poll}}}
	long := &script{steps: []scriptStep{doStep(StepLong, func() error { return ErrPartDone })}}
	message := &script{steps: []scriptStep{recvStep(1, nil)}}
	over := &script{}
	for i, s := range []*script{polled, long, message, over} {
		s.start(e, int32(i))
	}
	idle := &script{}
	e.Schedules().Init(Route{Context: testContext, Match: Match{Tag: 9}}, 0, idle, new(Schedule))
	failed := errors.New("failed")
	e.Processes().Abort(failed)
	late := &script{steps: []scriptStep{doStep(StepShort, func() error { return errors.New("a step after the failure") })}}
	late.start(e, 10)
	if err := <-late.ended; !errors.Is(err, failed) {
		t.Errorf("a schedule that is started later: got %v", err)
	}
	e.lock()
	defer e.unlock()
	for i, s := range []*script{polled, long, message} {
		if !errors.Is(s.abandoned, failed) {
			t.Errorf("schedule %d: got %v", i, s.abandoned)
		}
	}
	if err := cmp.Or(over.abandoned, idle.abandoned); err != nil {
		t.Error(err)
	}
}

// TestScheduleFails: after the error of a step no other step begins, messages that wait are
// cancelled, and the other process, which waits for a message, learns that none will come.
func TestScheduleFails(t *testing.T) {
	failed := errors.New("failed")
	for _, kind := range []StepKind{StepShort, StepLong} {
		es := open(t, 2, nil, nil)
		var ended atomic.Bool
		each(t, es, func(self int, e *Engine) error {
			if self == 1 {
				defer ended.Store(true)
			}
			b := make([]byte, 1)
			s := &script{steps: []scriptStep{recvStep(1-self, b), waitStep()}}
			want := ErrFailed
			if self == 0 {
				s.steps = []scriptStep{recvStep(1, b), doStep(kind, func() error { return failed }),
					doStep(kind, func() error { return errors.New("a step after the error") })}
				want = failed
			}
			h := s.start(e, 1)
			_, err := e.Requests().Wait(h)
			if !errors.Is(err, want) || !errors.Is(<-s.ended, want) {
				return fmt.Errorf("got %w, want %w", err, want)
			}
			if e.requests.activeIn(testContext, false) {
				return errors.New("there are messages")
			}
			for self == 0 && !ended.Load() { // answers Watch
				if err := e.Poll(); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// TestScheduleGoroutines: many goroutines start schedules and wait for them.
func TestScheduleGoroutines(t *testing.T) {
	es := open(t, 2, nil, nil)
	each(t, es, func(self int, e *Engine) error {
		var all sync.WaitGroup
		errs := make([]error, 16)
		for i := range errs {
			all.Go(func() {
				for range 50 {
					s, _ := passing(self, 2, 100*i*i, e)
					if _, err := e.Requests().Wait(s.start(e, int32(i))); err != nil {
						errs[i] = err
					}
				}
			})
		}
		all.Wait()
		return errors.Join(errs...)
	})
}

// TestScheduleFailsInLongStep: a message that fails while a step is done without the lock fails the
// schedule.
func TestScheduleFailsInLongStep(t *testing.T) {
	es := open(t, 2, nil, nil)
	each(t, es, func(self int, e *Engine) error {
		if self == 1 {
			return e.Send(to(1, 0, 3), make([]byte, 8), Standard)
		}
		s := script{steps: []scriptStep{recvStep(1, make([]byte, 4)), doStep(StepLong, func() error {
			for {
				if receives, _ := e.Contexts().QueueLengths(testContext); receives == 0 {
					return nil
				}
				if err := e.Processes().Err(); err != nil {
					return err
				}
			}
		}), waitStep()}}
		if _, err := e.Requests().Wait(s.start(e, 3)); !errors.Is(err, ErrTruncate) {
			return fmt.Errorf("got %w, want %w", err, ErrTruncate)
		}
		return nil
	})
}
