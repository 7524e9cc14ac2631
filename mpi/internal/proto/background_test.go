package proto

import (
	"bytes"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/mpi/internal/proto/internal/ended"
)

// TestBackground: schedules complete although the program calls nothing, over variants of the
// transport. The goroutine ends with the last of them.
func TestBackground(t *testing.T) {
	for _, tw := range []variant{{}, {noRead: true}, {pairing: true}, {fragments: true}} {
		es := open(t, 2, tw.wrap, nil)
		each(t, es, func(self int, e *Engine) error {
			var all []*script
			for i, n := range []int{0, 10, 1 << 20, 300} {
				s, _ := passing(self, 2, n, e)
				s.start(e, int32(i))
				all = append(all, s)
			}
			for _, s := range all {
				if err := <-s.ended; err != nil {
					return err
				}
			}
			return nil
		})
		for _, e := range es {
			awaitBackgroundEnd(t, e)
		}
	}
}

// awaitState returns when f reports true. f is called with the lock of the engine.
func awaitState(t *testing.T, e *Engine, what string, f func(b *background) bool) {
	t.Helper()
	waittest.Until(t, what, func() bool {
		e.lock()
		defer e.unlock()
		return f(&e.waiters.background)
	})
}

// awaitBackground returns when the goroutine in the background polls or sleeps.
func awaitBackground(t *testing.T, e *Engine) {
	t.Helper()
	awaitState(t, e, "the background runs", func(b *background) bool { return b.running })
}

// awaitBackgroundEnd returns when that goroutine has ended.
func awaitBackgroundEnd(t *testing.T, e *Engine) {
	t.Helper()
	awaitState(t, e, "the background has ended", func(b *background) bool { return !b.running })
}

// TestBackgroundLeaves: a call that waits makes progress itself, and the goroutine in the
// background ends, whether it polls or sleeps. It starts again when the call has ended and a
// schedule is left.
func TestBackgroundLeaves(t *testing.T) {
	es := open(t, 2, nil, nil)
	e, peer := es[0], es[1]
	for i := range 50 {
		b := make([]byte, 1)
		s := &script{steps: []scriptStep{recvStep(1, b)}}
		s.start(e, 1)
		awaitState(t, e, "the background polls, or sleeps every other time", func(b *background) bool {
			return b.running && (i%2 == 0 || e.waiters.sleeping)
		})
		waited := make(chan error)
		go func() {
			_, err := e.Recv(from(1, 7), nil)
			waited <- err
		}()
		awaitBackgroundEnd(t, e) // it has left
		// The timer does not wake the process while the call waits.
		awaitState(t, e, "the timer is not armed", func(b *background) bool { return !b.armed })
		if err := peer.Send(to(1, 0, 7), nil, Standard); err != nil {
			t.Fatal(err)
		}
		if err := <-waited; err != nil {
			t.Fatal(err)
		}
		awaitBackground(t, e)
		if err := peer.Send(to(1, 0, 1), []byte{8}, Standard); err != nil {
			t.Fatal(err)
		}
		if err := <-s.ended; err != nil || b[0] != 8 {
			t.Fatal(b, err)
		}
	}
}

// TestTakeOverReached: a call that wants to take over from the background returns if another one
// polls instead, and has done what the call waits for.
func TestTakeOverReached(t *testing.T) {
	es := open(t, 2, nil, nil)
	e, w := es[0], &es[0].waiters
	for range 20 {
		e.lock()
		w.polling, w.inBackground, e.waiters.background.leave = true, true, false // as if the background polled
		e.unlock()
		waited := make(chan error)
		go func() {
			_, err := e.Recv(from(1, 7), nil)
			waited <- err
		}()
		awaitState(t, e, "the call wants the background to leave", func(b *background) bool {
			if !b.leave {
				return false
			}
			if err := es[1].Send(to(1, 0, 7), nil, Standard); err != nil {
				t.Error(err)
			}
			w.inBackground = false
			e.poller.progress() // as if another call polled
			return true
		})
		if err := <-waited; err != nil {
			t.Fatal(err)
		}
		e.lock()
		w.polling = false
		e.unlock()
	}
}

// TestBackgroundStops: no goroutine is left when the engine is closed or has failed with a schedule
// in progress.
func TestBackgroundStops(t *testing.T) {
	abort := func(e *Engine) error { e.Processes().Abort(errors.New("failed")); return nil }
	for _, end := range []func(e *Engine) error{(*Engine).Close, abort} {
		for _, wait := range []func(*testing.T, *Engine){awaitBackground, func(*testing.T, *Engine) {}} {
			e := open(t, 2, nil, nil)[0]
			s := &script{steps: []scriptStep{recvStep(1, nil)}}
			s.start(e, 1)
			wait(t, e)
			if err := end(e); err != nil {
				t.Fatal(err)
			}
			awaitBackgroundEnd(t, e)
		}
	}
}

// TestLongSchedule: a call that starts a long schedule does none of its long steps, which may have
// several parts. The goroutine in the background does them, without the timer; also each time that
// a persistent one is started.
func TestLongSchedule(t *testing.T) {
	e := open(t, 1, nil, nil)[0]
	on := Route{Context: testContext, Match: Match{Tag: 1}}
	release, parts := make(chan struct{}), 0
	s := &script{ended: make(chan error, 1), steps: []scriptStep{doStep(StepLong, func() error {
		<-release
		if parts++; parts%3 != 0 {
			return ErrPartDone
		}
		return nil
	})}}
	check := func(want int) {
		t.Helper()
		close(release)
		if err := <-s.ended; err != nil || parts != want {
			t.Errorf("%d parts, want %d; %v", parts, want, err)
		}
		awaitBackgroundEnd(t, e)
		if e.waiters.background.timer != nil || e.waiters.background.long != 0 {
			t.Errorf("timer %v, %d long schedules", e.waiters.background.timer, e.waiters.background.long)
		}
		release = make(chan struct{})
	}
	e.Schedules().Start(on, longSchedule, s, new(Schedule))
	check(3)
	h := e.Schedules().Init(on, longSchedule, s, new(Schedule))
	for i := range 2 {
		if err := e.Start(h); err != nil {
			t.Fatal(err)
		}
		check(6 + 3*i)
		if _, err := e.Requests().Wait(h); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPolledParts: the call that starts a schedule does one part of a StepPoll, and each poll does
// one more, while later schedules of the context wait. When the context has ended, no further part
// is done.
func TestPolledParts(t *testing.T) {
	e := open(t, 1, nil, nil)[0]
	parts, tries := 0, 0
	poll := func(n *int, err error) *script {
		return &script{ended: make(chan error, 1), steps: []scriptStep{{
			Step{Kind: StepPoll, Peer: ProcNull, Sleepers: new(uint64)}, func() error { *n++; return err },
		}}}
	}
	first, second := poll(&parts, ErrPartDone), poll(&tries, ErrNotYet)
	e.lock()
	for i, s := range []*script{first, second} {
		on := Route{Context: testContext, Match: Match{Tag: int32(i + 1)}}
		e.schedules.begin(e.schedules.new(on, 0, s, new(Schedule)).schedule)
	}
	if parts != 1 {
		t.Errorf("the start has done %d parts", parts)
	}
	if done := e.schedules.poll(); !done || parts != 2 || tries != 1 {
		t.Errorf("a poll: done %v, %d parts; the second schedule was tried %d times", done, parts, tries)
	}
	e.unlock()
	e.Contexts().End(testContext, ErrContextEnded)
	for _, s := range []*script{first, second} {
		if err := <-s.ended; err != ErrContextEnded {
			t.Errorf("ended with %v", err)
		}
	}
	e.lock()
	defer e.unlock()
	before := parts
	if e.schedules.poll() || parts != before {
		t.Error("a part was done after the context had ended")
	}
}

// TestPolledQueues: a StepPoll that cannot be done yet does not delay those of later schedules that
// have another Queue.
func TestPolledQueues(t *testing.T) {
	e := open(t, 1, nil, nil)[0]
	var tries [4]int
	var all []*script
	e.lock()
	for i, queue := range []int{1, 0, 1, 0} {
		s := &script{ended: make(chan error, 1), steps: []scriptStep{{
			Step{Kind: StepPoll, Peer: ProcNull, Queue: queue, Sleepers: new(uint64)}, func() error {
				tries[i]++
				if i == 0 || tries[i] < 3 {
					return ErrNotYet
				}
				return nil
			},
		}}}
		on := Route{Context: testContext, Match: Match{Tag: int32(i + 1)}}
		e.schedules.begin(e.schedules.new(on, 0, s, new(Schedule)).schedule)
		all = append(all, s)
	}
	for range 3 {
		e.schedules.poll()
	}
	if tries[0] != 4 || tries[1] != 3 {
		t.Errorf("the schedules were tried %v times", tries)
	}
	e.unlock()
	e.Contexts().End(testContext, ErrContextEnded)
	for i, want := range []error{ErrContextEnded, nil, ErrContextEnded, nil} {
		if err := <-all[i].ended; err != want {
			t.Errorf("schedule %d ended with %v, want %v", i, err, want)
		}
	}
}

// TestPolledMessages: a message that arrives, or fails, while its schedule is polled neither makes
// the steps after the StepPoll begin nor leaves the schedule without an end.
func TestPolledMessages(t *testing.T) {
	for name, length := range map[string]int{"arrives": 1, "is too long": 2} {
		t.Run(name, func(t *testing.T) {
			es := open(t, 2, nil, nil)
			// The StepPoll is done at the second try after the message has come.
			buf, tries, after := make([]byte, 1), 0, 0
			s := &script{steps: []scriptStep{
				recvStep(1, buf),
				{Step{Kind: StepPoll, Peer: ProcNull, Sleepers: new(uint64)}, func() error {
					if buf[0] == 7 && length == 1 {
						tries++
					}
					if tries < 2 {
						return ErrNotYet
					}
					return nil
				}},
				waitStep(),
				doStep(StepShort, func() error { after++; return nil }),
			}}
			h := s.start(es[0], 1)
			if err := es[1].Send(to(1, 0, 1), bytes.Repeat([]byte{7}, length), Standard); err != nil {
				t.Fatal(err)
			}
			es[0].lock()
			for tries == 0 && length == 1 {
				if err := es[0].poller.pollOnce(); err != nil || after != 0 {
					es[0].unlock()
					t.Fatalf("%d steps after the one that is polled, %v", after, err)
				}
			}
			es[0].unlock()
			_, err := es[0].Requests().Wait(h)
			ended := <-s.ended
			if length == 1 && (err != nil || ended != nil || after != 1) || length == 2 && (err == nil || ended == nil) {
				t.Errorf("%v, ended with %v, %d steps after the one that is polled", err, ended, after)
			}
			es[0].lock()
			defer es[0].unlock()
			if n := len(es[0].schedules.polled.list); n != 0 {
				t.Errorf("%d schedules are polled", n)
			}
		})
	}
}

// TestPolledAfterEnd: a schedule whose last message ends after the context has ended does no
// StepPoll: the memory that it reads may be unmapped.
func TestPolledAfterEnd(t *testing.T) {
	es := open(t, 2, nil, nil)
	polls, long := 0, make([]byte, 1<<20)
	s := &script{steps: []scriptStep{sendStep(0, 1, long), waitStep(), {Step{Kind: StepPoll, Peer: ProcNull, Sleepers: new(uint64)},
		func() error { polls++; return nil }}}}
	h := s.start(es[0], 1)
	es[0].Contexts().End(testContext, ErrContextEnded)
	es[0].Contexts().Expect(ended.Number(testContext))
	if len(s.ended) != 0 {
		t.Fatal("the send ends with the context")
	}
	received := make(chan error, 1)
	go func() {
		_, err := es[1].Recv(from(0, 1), make([]byte, len(long)))
		received <- err
	}()
	_, err := es[0].Requests().Wait(h)
	if ended := <-s.ended; err == nil || ended != ErrContextEnded || polls != 0 {
		t.Errorf("%v, ended with %v after %d polls", err, ended, polls)
	}
	if err := <-received; err != nil {
		t.Error(err)
	}
}

// TestPolledOrder: the polled steps of a context are tried in the order in which their schedules
// were started, also if an earlier schedule has done a long step meanwhile.
func TestPolledOrder(t *testing.T) {
	e := open(t, 1, nil, nil)[0]
	release, polls, over := make(chan struct{}), 0, new(atomic.Bool)
	poll := func(f func() bool) scriptStep {
		return scriptStep{Step{Kind: StepPoll, Peer: ProcNull, Sleepers: new(uint64)}, func() error {
			if f() {
				return nil
			}
			return ErrNotYet
		}}
	}
	first := &script{steps: []scriptStep{
		doStep(StepLong, func() error { <-release; return nil }),
		poll(func() bool {
			polls++
			over.Store(polls > 3)
			return over.Load()
		}),
	}}
	second := &script{steps: []scriptStep{poll(over.Load)}}
	first.start(e, 1)
	second.start(e, 2)
	close(release)
	for _, s := range []*script{first, second} {
		if err := <-s.ended; err != nil {
			t.Error(err)
		}
	}
}
