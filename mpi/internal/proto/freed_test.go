package proto

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/mpi/internal/wire"
	"github.com/ibrun/ibrun/perf"
)

// persistentOf returns persistent requests of each kind, from process 0 to process 1.
func persistentOf(t *testing.T, e *Engine) (hs []Handle) {
	t.Helper()
	null := Route{Context: testContext, Peer: ProcNull, Match: Match{Rank: ProcNull}}
	x := make([]byte, 8)
	for _, m := range []Mode{Standard, Synchronous, Buffered} {
		hs = append(hs, e.SendInit(to(0, 1, 1), oneBlock(x), m), e.SendInit(null, oneBlock(x), m))
	}
	parts := Partitions{Buf: x, Count: 2, Failed: func(error) {}}
	send, err := e.Schedules().PsendInit(to(0, 1, 2), parts)
	if err != nil {
		t.Fatal(err)
	}
	steps := &script{ended: make(chan error, 10), steps: []scriptStep{{Step: Step{Kind: StepSend, Peer: 1, Tag: 6, Buf: x}}}}
	return append(hs, send, e.Schedules().PrecvInit(to(1, 1, 3), parts), e.RecvInit(to(1, 1, 4), oneBlock(x)),
		e.RecvInit(null, oneBlock(x)), e.Schedules().Init(to(0, 1, 5), 0, steps, new(Schedule)))
}

// TestPersistentFreed: a persistent request of a context that has ended fails when it is started,
// in whatever state it was, and sends nothing.
func TestPersistentFreed(t *testing.T) {
	count := &kindCounter{}
	es := open(t, 2, func(tr fabric.Transport) fabric.Transport {
		count.Transport = tr
		return count
	}, nil)
	a := es[0]
	idle, active := persistentOf(t, a), persistentOf(t, a)
	if err := a.AttachedBuffer().Attach(make([]byte, 10_000)); err != nil {
		t.Fatal(err)
	}
	for i, h := range active {
		if err := a.Start(h); err != nil {
			t.Fatal(i, err)
		}
	}
	for _, e := range es {
		e.Contexts().Free(testContext, ErrFreed)
	}
	for i, h := range active {
		if _, err := pollUntilDone(t, es, a, h); err != nil && !errors.Is(err, ErrFreed) {
			t.Errorf("active request %d: %v", i, err)
		}
	}
	late := persistentOf(t, a) // while another goroutine frees the communicator
	eager, synchronous := count.sent[wire.Eager].Load(), count.sent[wire.EagerSync].Load()
	for i, h := range slices.Concat(idle, active, late) {
		for range 2 {
			if err := a.Start(h); err != nil {
				t.Errorf("request %d: %v", i, err)
			}
			if _, err := a.Requests().Wait(h); !errors.Is(err, ErrContextEnded) {
				t.Errorf("request %d: %v, want %v", i, err, ErrContextEnded)
			}
		}
		if err := a.Requests().Free(h); err != nil {
			t.Errorf("request %d: %v", i, err)
		}
	}
	if _, err := a.AttachedBuffer().Detach(); err != nil {
		t.Error(err)
	}
	if n := count.sent[wire.Eager].Load() + count.sent[wire.EagerSync].Load() - eager - synchronous; n != 0 {
		t.Errorf("%d messages were sent", n)
	}
	checkEmpty(t, es)
}

// checkEmpty checks that engines have no request, no message and no schedule.
func checkEmpty(t *testing.T, es []*Engine) {
	t.Helper()
	for i, e := range es {
		used := 0
		for _, slab := range e.requests.slabs {
			for i := range slab {
				if slab[i].state != free {
					used++
				}
			}
		}
		if n := e.waiters.background.schedules; used+n+len(e.schedules.polled.list)+e.unexpected.count != 0 || e.transfers.head != nil {
			t.Errorf("engine %d: %d requests, %d schedules, of which %d are polled, %d messages, transfers %v", i, used, n,
				len(e.schedules.polled.list), e.unexpected.count, e.transfers.head)
		}
	}
}

// TestFreedOrLeft: what needs a process that has ended the context fails, in different ways: the
// communicator was freed, or that process has left it before, so it may still be used here.
func TestFreedOrLeft(t *testing.T) {
	for _, leaves := range []bool{false, true} {
		want := map[bool]error{false: ErrFreed, true: ErrFailed}[leaves]
		t.Run(fmt.Sprint("leaves ", leaves), func(t *testing.T) {
			es := open(t, 2, nil, nil)
			a, b := es[0], es[1]
			ends := map[string]Handle{}
			send := func(name string) {
				h, err := a.Isend(to(0, 1, 1), make([]byte, 8), Synchronous)
				if err != nil {
					t.Fatal(err)
				}
				ends[name] = h
			}
			recv := to(1, 1, 2)
			ends["receive"] = a.Irecv(recv, make([]byte, 8))
			a.Processes().Watch(testContext, 1)
			send("send before")
			for _, n := b.Contexts().QueueLengths(testContext); n == 0; _, n = b.Contexts().QueueLengths(testContext) {
				if err := b.Poll(); err != nil {
					t.Fatal(err)
				}
			}
			if leaves {
				b.Contexts().Leave(testContext)
				b.Contexts().End(testContext, ErrFreed)
			} else {
				b.Contexts().Free(testContext, ErrFreed)
			}
			send("send after")
			for name, h := range ends {
				if _, err := pollUntilDone(t, es, a, h); !errors.Is(err, want) {
					t.Errorf("%s: %v, want %v", name, err, want)
				}
			}
			h := a.Irecv(recv, make([]byte, 8)) // posted when the process is known to have ended the context
			if _, err := pollUntilDone(t, es, a, h); !errors.Is(err, want) {
				t.Errorf("later receive: %v, want %v", err, want)
			}
			checkEmpty(t, es)
		})
	}
}

// TestFailedLeaves: what needs a process whose engine has failed, and that ends the context
// therefore, fails because of that: the communicator was not freed.
func TestFailedLeaves(t *testing.T) {
	es := open(t, 2, nil, nil)
	a, b := es[0], es[1]
	recv := a.Irecv(to(1, 1, 2), make([]byte, 8))
	a.Processes().Watch(testContext, 1)
	send, err := a.Isend(to(0, 1, 1), make([]byte, 8), Synchronous)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := b.Contexts().QueueLengths(testContext); n == 0; _, n = b.Contexts().QueueLengths(testContext) {
		if err := b.Poll(); err != nil {
			t.Fatal(err)
		}
	}
	b.Processes().Abort(errors.New("failed"))
	b.Contexts().Leave(testContext)
	b.Contexts().End(testContext, ErrFreed)
	for name, h := range map[string]Handle{"receive": recv, "send": send} {
		if _, err := pollUntilDone(t, es[:1], a, h); !errors.Is(err, ErrFailed) || errors.Is(err, ErrFreed) {
			t.Errorf("%s: %v, want %v", name, err, ErrFailed)
		}
	}
}

// TestFreedInStep: a schedule of which another goroutine does a step when its context is freed
// learns of it at once: others may read its buffers in the memory that they share, which may be
// unmapped afterwards.
func TestFreedInStep(t *testing.T) {
	e := open(t, 1, nil, nil)[0]
	begun, release := make(chan struct{}), make(chan struct{})
	s := &script{steps: []scriptStep{doStep(StepLong, func() error {
		close(begun)
		<-release
		return nil
	})}}
	h := s.start(e, 1)
	result := make(chan error, 1)
	go func() {
		_, err := e.Requests().Wait(h)
		result <- err
	}()
	<-begun
	e.Contexts().Free(testContext, ErrFreed)
	e.lock()
	abandoned := s.abandoned
	e.unlock()
	close(release)
	if err, ended := <-result, <-s.ended; abandoned != ErrFreed || !errors.Is(err, ErrFreed) || ended != ErrContextEnded {
		t.Errorf("abandoned with %v, ended with %v, completed with %v", abandoned, ended, err)
	}
}

// TestFlush: messages that others have sent before they are asked are received although they arrive
// later, by receives of all kinds. A receive without a message remains.
func TestFlush(t *testing.T) {
	for range 10 { // a partition may be received before Flushed is handled, or with it
		testFlush(t)
	}
}

func testFlush(t *testing.T) {
	es := open(t, 3, nil, nil)
	stopBackgrounds(es)
	x := func() []byte { return make([]byte, 8) }
	a := es[0]
	if a.PrepareFlush(testContext, partitionedContext) {
		t.Error("a context without receives has some")
	}
	psend, precv := pairOf(t, es[2], a, 2, 8)
	if a.PrepareFlush(testContext, partitionedContext) {
		t.Error("a receive that was not started is one")
	}
	alone := a.Irecv(to(1, 1, 9), x())
	handles := map[string]Handle{"receive": a.Irecv(to(1, 1, 1), x()), "long receive": a.Irecv(to(1, 1, 2), make([]byte, 1<<20)),
		"receive from itself": a.Irecv(to(0, 0, 1), x()), "partitioned receive": precv}
	err := errors.Join(a.Start(precv), es[2].Start(psend), es[2].Schedules().Pready(psend, 0, 1))
	for _, s := range []struct{ from, tag, length int }{{1, 1, 8}, {1, 2, 1 << 20}, {0, 1, 8}} {
		_, err1 := es[s.from].Isend(to(s.from, 0, int32(s.tag)), make([]byte, s.length), Standard)
		err = errors.Join(err, err1)
	}
	if err != nil {
		t.Fatal(err)
	}
	if !a.PrepareFlush(testContext, partitionedContext) {
		t.Error("there are no receives")
	}
	flushed := make(chan error, 1)
	go func() { flushed <- a.Flush(perf.Free, testContext, partitionedContext) }()
	for done := false; !done; {
		select {
		case err = <-flushed:
			done = true
		default:
			err = errors.Join(es[1].Poll(), es[2].Poll())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, e := range es {
		e.Contexts().Free(testContext, ErrFreed)
		e.Contexts().Free(partitionedContext, ErrFreed)
	}
	for name, h := range handles {
		if _, err := pollUntilDone(t, es, a, h); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := pollUntilDone(t, es, a, alone); !errors.Is(err, ErrFreed) {
		t.Errorf("a receive without a message: %v", err)
	}
}

// partitionedContext is another context than testContext.
const partitionedContext = testContext + 1

// stopBackgrounds makes engines make progress only in calls.
func stopBackgrounds(es []*Engine) {
	for _, e := range es {
		e.lock()
		e.waiters.stopBackground()
		e.unlock()
	}
}

// pairOf returns a partitioned send of n bytes of process rank, and its receive, in
// partitionedContext.
func pairOf(t *testing.T, from, to *Engine, rank int32, n int) (send, recv Handle) {
	t.Helper()
	parts := func() Partitions { return Partitions{Buf: make([]byte, n), Count: 2, Failed: func(error) {}} }
	on := func(peer int) Route {
		return Route{Context: partitionedContext, Peer: int32(peer), Match: Match{Rank: rank, Tag: 3}}
	}
	send, err := from.Schedules().PsendInit(on(to.links.self), parts())
	if err != nil {
		t.Fatal(err)
	}
	return send, to.Schedules().PrecvInit(on(from.links.self), parts())
}

// TestPrepareFlush: partitions that are ready are sent and received, also while the schedule of
// their request waits for its turn.
func TestPrepareFlush(t *testing.T) {
	es := open(t, 2, nil, nil)
	stopBackgrounds(es)
	a, b := es[0], es[1]
	psend, precv := pairOf(t, a, b, 0, 2<<20)
	if err := errors.Join(a.Start(psend), b.Start(precv), a.Schedules().Pready(psend, 0, 0)); err != nil {
		t.Fatal(err)
	}
	queued := func(e *Engine, h Handle) {
		t.Helper()
		e.lock()
		for !h.r.transfer.queued {
			e.poller.progress()
			e.unlock()
			other := es[1-e.links.self]
			if err := other.Poll(); err != nil {
				t.Fatal(err)
			}
			e.lock()
		}
		e.unlock()
	}
	queued(b, precv) // the setup has arrived
	b.PrepareFlush(testContext, partitionedContext)
	if b.PrepareFlush(testContext, partitionedContext); precv.r.transfer.queued {
		t.Error("the receive has not continued")
	}
	queued(a, psend) // partition 0 has been sent
	if err := a.Schedules().Pready(psend, 1, 1); err != nil {
		t.Fatal(err)
	}
	a.PrepareFlush(testContext, partitionedContext)
	if next := psend.r.schedule.next; next != 2 {
		t.Errorf("%d partitions were sent, want 2", next)
	}
	for _, x := range []struct {
		e *Engine
		h Handle
	}{{a, psend}, {b, precv}} {
		if _, err := pollUntilDone(t, es, x.e, x.h); err != nil {
			t.Error(err)
		}
	}
}

// TestFlushAnswers: answers that were not asked for are refused, and the process that has to answer
// may close.
func TestFlushAnswers(t *testing.T) {
	es := open(t, 2, nil, nil)
	a, b := es[0], es[1]
	a.Processes().AllowFinalize()
	f := &a.flushes
	if f.handleFlushed(1, [5]uint64{1}) {
		t.Error("an answer without a question was accepted")
	}
	h := a.Irecv(to(1, 1, 1), nil)
	f.list = []*flush{{id: 7, from: []int32{1}}}
	if f.handleFlushed(0, [5]uint64{7}) || !f.handleFlushed(1, [5]uint64{7}) || f.handleFlushed(1, [5]uint64{7}) {
		t.Error("the answers of other processes, or of one twice, were accepted")
	}
	f.list = nil
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := a.Flush(perf.Free, testContext, testContext); err != nil {
		t.Error(err)
	}
	if _, err := a.Requests().Wait(h); !errors.Is(err, ErrFailed) {
		t.Error(err)
	}
}

// TestFreedByClosed: a process frees a communicator and closes, perhaps before this one knows that
// it can free it. What was in progress has the error of the communicator, and not that of a process
// that is lost.
func TestFreedByClosed(t *testing.T) {
	for _, closedFirst := range []bool{true, false} {
		es := open(t, 2, nil, nil)
		a, b := es[0], es[1]
		a.Processes().AllowFinalize()
		recv := a.Irecv(to(1, 1, 2), make([]byte, 8))
		send, err := a.Isend(to(0, 1, 1), make([]byte, 8), Synchronous)
		if err != nil {
			t.Fatal(err)
		}
		steps := []func() error{func() error {
			a.Contexts().Free(testContext, ErrFreed)
			return nil
		}, b.Close}
		if closedFirst {
			steps[0], steps[1] = steps[1], steps[0]
		}
		for _, step := range steps {
			if err := step(); err != nil {
				t.Fatal(err)
			}
			for range 10 {
				if err := a.Poll(); err != nil {
					t.Fatal(err)
				}
			}
		}
		for name, h := range map[string]Handle{"receive": recv, "send": send} {
			if _, err := pollUntilDone(t, es[:1], a, h); !errors.Is(err, ErrFreed) || errors.Is(err, ErrFailed) {
				t.Errorf("%s, closed first %v: %v, want %v", name, closedFirst, err, ErrFreed)
			}
		}
	}
}

// TestPartitionedIdle: Contexts.WaitIdle does not wait for partitioned messages, and
// WaitPartitionedIdle waits for no others. An inactive request is in progress for neither.
func TestPartitionedIdle(t *testing.T) {
	e := open(t, 1, nil, nil)[0]
	x := Partitions{Buf: make([]byte, 8), Count: 2, Failed: func(error) {}}
	idle, active := e.Schedules().PrecvInit(to(0, 0, 1), x), e.Schedules().PrecvInit(to(0, 0, 2), x)
	recv := e.Irecv(to(0, 0, 3), nil)
	reached := func(context, partitioned bool) {
		t.Helper()
		for what, want := range map[goalKind]bool{contextIdle: context, partitionedIdle: partitioned} {
			g := goal{watch: watch{what: what, from: Route{Context: testContext}}}
			if got := e.waiters.reached(&g); got != want {
				t.Errorf("goal %d reached: %v, want %v", what, got, want)
			}
		}
	}
	reached(false, true)
	if err := errors.Join(e.Start(active), e.Requests().Cancel(recv)); err != nil {
		t.Fatal(err)
	}
	reached(true, false)
	e.Contexts().Free(testContext, ErrFreed)
	reached(true, true)
	for _, h := range []Handle{recv, active} {
		if _, err := e.Requests().Wait(h); err != nil && !errors.Is(err, ErrFreed) {
			t.Error(err)
		}
	}
	if err := errors.Join(e.Requests().Free(idle), e.Requests().Free(active)); err != nil {
		t.Error(err)
	}
	checkEmpty(t, []*Engine{e})
}
