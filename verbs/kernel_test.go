//go:build linux

package verbs_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	abi "github.com/ibrun/ibrun/internal/abi/uverbs"
	"github.com/ibrun/ibrun/internal/alloctest"
	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/verbs"
	"github.com/ibrun/ibrun/verbs/internal/opener"
	"github.com/ibrun/ibrun/verbs/internal/rxe"
	"github.com/ibrun/ibrun/verbs/internal/rxetest"
)

// newFake returns a rig on a simulated kernel.
func newFake(t testing.TB) (*rxetest.Kernel, *rig) {
	t.Helper()
	k := rxetest.New()
	dev, err := opener.Open(rxe.On(k), k.Device())
	must(t, err)
	t.Cleanup(func() {
		must(t, dev.Close())
		if open := k.OpenObjects(); open != "" {
			t.Errorf("after Close these are still open: %s", open)
		}
	})
	r := &rig{t: t, dev: dev, buf: make([]byte, rigBytes)}
	r.pd, err = dev.AllocPD()
	must(t, err)
	r.cq, err = dev.CreateCQ(256, nil)
	must(t, err)
	r.mr, err = r.pd.Register(r.buf, all)
	must(t, err)
	return k, r
}

// TestCloseOrder closes objects before their users, which is refused, and then in the right order.
func TestCloseOrder(t *testing.T) {
	k, r := newFake(t)
	ch, err := r.dev.CreateChannel()
	must(t, err)
	cq, err := r.dev.CreateCQ(8, ch)
	must(t, err)
	srq, err := r.pd.CreateSRQ(verbs.SRQConfig{MaxRecv: 8})
	must(t, err)
	mw, err := r.pd.AllocMW(verbs.MWType2)
	must(t, err)
	ah, err := r.pd.CreateAH(verbs.AHAttr{})
	must(t, err)
	q := r.qp(verbs.QPConfig{Type: verbs.RC, SendCQ: cq, SRQ: srq})
	type closer interface{ Close() error }
	for _, c := range []struct {
		closer
		user string
	}{{r.pd, "address handle, the memory region"}, {cq, "queue pair"}, {srq, "queue pair"}, {ch, "completion queue"}} {
		if err := c.Close(); !errors.Is(err, verbs.ErrBusy) || !strings.Contains(err.Error(), c.user) {
			t.Errorf("close of %T: %v", c.closer, err)
		}
	}
	k.Fail(abi.CmdDestroyQP, syscall.EBUSY)
	if err := q.Close(); !errors.Is(err, verbs.ErrBusy) {
		t.Errorf("close of a pair that the kernel reports as in use: %v", err)
	}
	k.Fail(abi.CmdDestroyQP, nil)
	must(t, srq.Recv(1)) // nothing was closed
	for _, c := range []closer{q, srq, cq, ch, ah, mw, r.mr, r.cq, r.pd, r.dev} {
		must(t, c.Close())
		must(t, c.Close())
	}
	if open := k.OpenObjects(); open != "" {
		t.Errorf("still open: %s", open)
	}
}

// TestUseAfterClose calls the methods of a closed queue pair.
func TestUseAfterClose(t *testing.T) {
	_, r := newFake(t)
	q, _ := r.pair(verbs.QPConfig{Type: verbs.RC})
	must(t, q.Close())
	for name, err := range map[string]error{
		"send":    q.Send(1, 0, r.mr.SGE(0, 8)),
		"receive": q.Recv(1, r.mr.SGE(0, 8)),
		"ring":    q.Ring(),
		"modify":  q.Modify(verbs.Attr{State: verbs.StateErr}, verbs.AttrState),
		"connect": q.Connect(verbs.Address{}),
	} {
		if !errors.Is(err, verbs.ErrClosed) || !errors.Is(err, os.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := q.State(); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("state: %v", err)
	}
}

// TestFailedCreation makes every command fail that creates an object, and checks that nothing stays allocated.
func TestFailedCreation(t *testing.T) {
	for cmd, what := range map[abi.Command]func(r *rig) error{
		abi.CmdAllocPD:           func(r *rig) error { _, err := r.dev.AllocPD(); return err },
		abi.CmdRegMR:             func(r *rig) error { _, err := r.pd.Register(r.buf, 0); return err },
		abi.CmdAllocMW:           func(r *rig) error { _, err := r.pd.AllocMW(verbs.MWType1); return err },
		abi.CmdCreateAH:          func(r *rig) error { _, err := r.pd.CreateAH(verbs.AHAttr{}); return err },
		abi.CmdCreateCQ:          func(r *rig) error { _, err := r.dev.CreateCQ(1, nil); return err },
		abi.CmdCreateSRQ:         func(r *rig) error { _, err := r.pd.CreateSRQ(verbs.SRQConfig{MaxRecv: 1}); return err },
		abi.CmdCreateCompChannel: func(r *rig) error { _, err := r.dev.CreateChannel(); return err },
		abi.CmdCreateQP:          newPair,
		abi.CmdModifyQP:          newPair,
		abi.CmdQueryPort:         newPair,
	} {
		t.Run(cmd.String(), func(t *testing.T) {
			k, r := newFake(t)
			k.Fail(cmd, syscall.ENOSPC)
			err := what(r)
			if !errors.Is(err, verbs.ErrLimit) || !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "rxe0") {
				t.Errorf("%v", err)
			}
			k.Fail(cmd, nil)
			must(t, what(r))
		})
	}
}

func newPair(r *rig) error {
	_, err := r.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: r.cq})
	return err
}

// TestPostErrors posts requests that are refused before anything is queued.
func TestPostErrors(t *testing.T) {
	k, r := newFake(t)
	q := r.qp(verbs.QPConfig{Type: verbs.RC, MaxSend: 3, MaxInline: 16})
	at, mem := r.mr.Remote(0), r.mr.SGE(0, 8)
	refused := func(want error, part string, err error) {
		t.Helper()
		var e *verbs.Error
		if !errors.Is(err, want) || !strings.Contains(err.Error(), part) || !errors.As(err, &e) ||
			e.QPN != q.Num() || e.ID != 9 || !e.Post {
			t.Errorf("got %v, want %v with %q", err, want, part)
		}
	}
	refused(verbs.ErrState, "RTS", q.Send(9, 0, mem))
	must(t, q.Connect(r.address(r.qp(verbs.QPConfig{Type: verbs.RC}))))
	refused(verbs.ErrInvalid, "2 entries", q.Send(9, 0, mem, mem))
	refused(verbs.ErrInvalid, "17 bytes inline", q.SendInline(9, 0, make([]byte, 17)))
	refused(verbs.ErrInvalid, "aligned", q.FetchAdd(9, 0, verbs.Remote{Addr: at.Addr + 4}, 1, mem))
	refused(verbs.ErrInvalid, "eight bytes", q.CompareSwap(9, 0, at, 1, 2, r.mr.SGE(0, 4)))
	refused(verbs.ErrInvalid, "messages of 8388608", q.Write(9, 0, at, verbs.SGE{Len: 8<<20 + 1}))
	refused(verbs.ErrInvalid, "2 entries", q.Recv(9, mem, mem))
	refused(verbs.ErrInvalid, "BindMW", q.Post(&verbs.Request{Op: verbs.OpBindMW, ID: 9}))
	k.HoldDoorbells(true)
	for range q.Cap().MaxSend {
		must(t, q.Send(1, verbs.Signaled, mem))
	}
	refused(verbs.ErrFull, "3 requests", q.Send(9, 0, mem))
	must(t, q.Ring())
	refused(verbs.ErrFull, "3 requests", q.Send(9, 0, mem))
	k.HoldDoorbells(false)
	must(t, q.Ring()) // nothing new: no system call
	k.Fail(abi.CmdPostSend, syscall.EINTR)
	q = r.qp(verbs.QPConfig{Type: verbs.UD})
	must(t, q.Start())
	refused(verbs.ErrInvalid, "does not have", q.Write(9, 0, at, mem))
	refused(verbs.ErrInvalid, "address handle", q.SendTo(9, 0, verbs.Dest{}, mem))
}

// TestRecvErrors posts receives that are refused, and receives to a pair that has failed, whose state is then queried. Each call
// must release the lock for the next one.
func TestRecvErrors(t *testing.T) {
	_, r := newFake(t)
	srq, err := r.pd.CreateSRQ(verbs.SRQConfig{MaxRecv: 3})
	must(t, err)
	q, mem := r.qp(verbs.QPConfig{Type: verbs.RC, MaxRecv: 3}), r.mr.SGE(0, 8)
	srqCap, _ := srq.Cap()
	for _, queue := range []struct {
		recv     func(uint64, ...verbs.SGE) error
		capacity int
	}{{q.Recv, q.Cap().MaxRecv}, {srq.Recv, srqCap}} {
		for id := range uint64(queue.capacity) {
			must(t, queue.recv(id, mem))
		}
		for range 2 {
			if err := queue.recv(9, mem, mem); !errors.Is(err, verbs.ErrInvalid) {
				t.Errorf("two entries: %v", err)
			}
			if err := queue.recv(9, mem); !errors.Is(err, verbs.ErrFull) {
				t.Errorf("got %v, want ErrFull", err)
			}
		}
	}
	q = r.qp(verbs.QPConfig{Type: verbs.RC})
	must(t, q.Modify(verbs.Attr{State: verbs.StateErr}, verbs.AttrState))
	must(t, q.Recv(1, mem))
	must(t, q.Recv(2, mem))
	shared := r.qp(verbs.QPConfig{Type: verbs.RC, SRQ: srq})
	for range 2 {
		if err := shared.Recv(9, mem); !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("a pair with a shared queue: %v", err)
		}
	}
}

// TestRingRetries makes one doorbell fail and the next one succeed.
func TestRingRetries(t *testing.T) {
	k, r := newFake(t)
	a, _ := r.pair(verbs.QPConfig{Type: verbs.RC})
	must(t, a.Write(1, verbs.Signaled, r.mr.Remote(0), r.mr.SGE(0, 8)))
	k.Fail(abi.CmdPostSend, syscall.ENOMEM)
	if err := a.Ring(); !errors.Is(err, verbs.ErrLimit) {
		t.Errorf("%v", err)
	}
	k.Fail(abi.CmdPostSend, nil)
	must(t, a.Ring())
	r.done(1)

	k.Fail(abi.CmdPostSend, syscall.ENOMEM)
	var e *verbs.Error
	err := a.Write(2, verbs.Signaled|verbs.RingDoorbell, r.mr.Remote(0), r.mr.SGE(0, 8))
	if !errors.Is(err, verbs.ErrLimit) || !errors.As(err, &e) || e.Post {
		t.Errorf("a post with RingDoorbell: %v", err)
	}
	k.Fail(abi.CmdPostSend, nil)
	must(t, a.Write(3, verbs.Signaled|verbs.RingDoorbell, r.mr.Remote(0), r.mr.SGE(0, 8)))
	r.done(2)
}

// TestOpenedAfterLoss: what is created after the device was reported as lost knows it. Nothing waits for ever.
func TestOpenedAfterLoss(t *testing.T) {
	k, r := newFake(t)
	ctx := waittest.Context(t)
	k.RaiseEvent(abi.EventDeviceFatal, 0)
	if ev, err := r.dev.NextEvent(ctx); err != nil || ev.Type != verbs.EventDeviceFatal {
		t.Fatalf("the event is %v, %v", ev, err)
	}
	ch, err := r.dev.CreateChannel()
	must(t, err)
	cq, err := r.dev.CreateCQ(8, nil)
	must(t, err)
	srq, err := r.pd.CreateSRQ(verbs.SRQConfig{MaxRecv: 8})
	must(t, err)
	q, mem := r.qp(verbs.QPConfig{Type: verbs.RC}), r.mr.SGE(0, 8)
	for what, call := range map[string]func() error{
		"channel":              func() error { _, err := ch.Wait(ctx); return err },
		"completion queue":     func() error { _, err := cq.Poll(make([]verbs.WC, 1)); return err },
		"shared receive queue": func() error { return srq.Recv(1, mem) },
		"receive":              func() error { return q.Recv(1, mem) },
		"send":                 func() error { return q.Send(1, 0, mem) },
	} {
		if err := call(); !errors.Is(err, verbs.ErrDeviceLost) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestEvents reads asynchronous events: of objects, of a port, of a closed object, and more than are queued.
func TestEvents(t *testing.T) {
	k, r := newFake(t)
	ctx := waittest.Context(t)
	const firstToken = 1 // that of the rig's completion queue
	k.RaiseEvent(abi.EventPathMig, 12345)
	k.RaiseEvent(abi.EventPortErr, 1)
	ev, err := r.dev.NextEvent(ctx)
	if err != nil || ev.Type != verbs.EventPortError || ev.Port != 1 || ev.String() != "PORT_ERR of port 1" {
		t.Errorf("%v, %v", ev, err)
	}
	got := make(chan verbs.Event)
	go func() {
		ev, err := r.dev.NextEvent(ctx)
		if err != nil {
			t.Error(err)
		}
		got <- ev
	}()
	k.RaiseEvent(abi.EventCQErr, firstToken)
	if ev := <-got; ev.Type != verbs.EventCQError || ev.CQ != r.cq {
		t.Errorf("%v", ev)
	}
	if _, err := r.cq.Poll(make([]verbs.WC, 1)); !errors.Is(err, verbs.ErrOverrun) {
		t.Errorf("poll: %v", err)
	}
	const many = 2000
	for i := range many {
		k.RaiseEvent(abi.EventPortActive, uint64(i))
		if i%100 == 0 { // the capacity of the pipe is limited
			waittest.UntilNil(t, "the events are read", func() error {
				n, err := k.UnreadEvents()
				if err == nil && n > 0 {
					err = fmt.Errorf("%d are not", n)
				}
				return err
			})
		}
	}
	seen, missed := 0, 0
	for seen+missed < many {
		ev, err := r.dev.NextEvent(ctx)
		if err != nil {
			t.Fatal(err)
		}
		missed += ev.Missed
		if ev.Port != seen+missed {
			t.Fatalf("event %d after %d and %d missed", ev.Port, seen, missed)
		}
		seen++
	}
}

// TestDeviceLost removes the device while goroutines wait.
func TestDeviceLost(t *testing.T) {
	k, r := newFake(t)
	ch, err := r.dev.CreateChannel()
	must(t, err)
	cq, err := r.dev.CreateCQ(8, ch)
	must(t, err)
	q, _ := r.pair(verbs.QPConfig{Type: verbs.RC, SendCQ: cq})
	must(t, q.Write(1, verbs.Signaled, r.mr.Remote(0), r.mr.SGE(0, 8)))
	must(t, q.Ring())
	r.poll(cq, 1)
	must(t, q.Write(2, verbs.Signaled, r.mr.Remote(0), r.mr.SGE(0, 8)))
	must(t, q.Ring()) // completes: it can still be polled after the loss
	waiting := make(chan error, 2)
	other, err := r.dev.CreateCQ(8, ch)
	must(t, err)
	for _, wait := range []func() error{
		func() error { _, err := other.Wait(context.Background(), make([]verbs.WC, 1)); return err },
		func() error { _, err := ch.Wait(context.Background()); return err },
	} {
		go func() { waiting <- wait() }()
	}
	k.RemoveDevice()
	for range 2 {
		if err := <-waiting; !errors.Is(err, verbs.ErrDeviceLost) {
			t.Errorf("wait: %v", err)
		}
	}
	if ev, err := r.dev.NextEvent(waittest.Context(t)); err != nil || ev.Type != verbs.EventDeviceFatal {
		t.Errorf("%v, %v", ev, err)
	}
	if c := r.poll(cq, 1)[2]; c.ID != 2 || c.Err() != nil {
		t.Errorf("completion from before the loss: %+v", c)
	}
	_, pollErr := cq.Poll(make([]verbs.WC, 1))
	_, queryErr := r.dev.QueryDevice()
	for name, err := range map[string]error{
		"poll": pollErr, "query": queryErr, "send": q.Send(3, 0), "receive": q.Recv(4), "ring": q.Ring(),
		"modify": q.Modify(verbs.Attr{State: verbs.StateErr}, verbs.AttrState), "notify": cq.Notify(false),
	} {
		if !errors.Is(err, verbs.ErrDeviceLost) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPollDuringClose polls queues that are closed and resized meanwhile. No poll may read unmapped memory.
func TestPollDuringClose(t *testing.T) {
	_, r := newFake(t)
	for range 20 {
		cq, err := r.dev.CreateCQ(8, nil)
		must(t, err)
		var group sync.WaitGroup
		for range 2 {
			group.Go(func() {
				for {
					if _, err := cq.Poll(make([]verbs.WC, 1)); err != nil {
						if !errors.Is(err, verbs.ErrClosed) {
							t.Error(err)
						}
						return
					}
					runtime.Gosched()
				}
			})
		}
		must(t, cq.Resize(16))
		runtime.GC()
		must(t, cq.Close())
		group.Wait()
	}
}

// TestManyGoroutines posts from many goroutines to one pair while others poll: each request completes once.
func TestManyGoroutines(t *testing.T) {
	_, r := newFake(t)
	cq, err := r.dev.CreateCQ(2000, nil)
	must(t, err)
	a, _ := r.pair(verbs.QPConfig{Type: verbs.RC, SendCQ: cq, MaxSend: 16})
	const posters, each = 4, 200
	var group sync.WaitGroup
	for p := range posters {
		group.Go(func() {
			for i := range each {
				id := uint64(p*each + i)
				for {
					err := a.Write(id, verbs.Signaled, r.mr.Remote(0), r.mr.SGE(0, 8))
					if err == nil {
						break
					}
					if !errors.Is(err, verbs.ErrFull) {
						t.Error(err)
						return
					}
					runtime.Gosched()
				}
				if err := a.Ring(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	got := r.poll(cq, posters*each)
	group.Wait()
	if n, err := cq.Poll(make([]verbs.WC, 1)); n != 0 || err != nil {
		t.Errorf("%d completions more than the expected %d, %v", n, len(got), err)
	}
}

// TestWaitSharesChannel waits in several goroutines for queues of one channel, each with its own context.
func TestWaitSharesChannel(t *testing.T) {
	_, r := newFake(t)
	ch, err := r.dev.CreateChannel()
	must(t, err)
	ctx := waittest.Context(t)
	var group sync.WaitGroup
	for i := range 6 {
		cq, err := r.dev.CreateCQ(8, ch)
		must(t, err)
		a, _ := r.pair(verbs.QPConfig{Type: verbs.RC, SendCQ: cq})
		group.Go(func() {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			wc := make([]verbs.WC, 1)
			for n := range uint64(50) {
				if i%2 == 0 { // the wait times out, and is repeated
					short, cancel := context.WithTimeout(t.Context(), 100*time.Microsecond)
					if _, err := cq.Wait(short, wc); !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("queue %d: %v", i, err)
					}
					cancel()
				}
				go func() {
					if err := errors.Join(a.Write(n, verbs.Signaled, r.mr.Remote(0), r.mr.SGE(0, 8)), a.Ring()); err != nil {
						t.Error(err)
					}
				}()
				if _, err := cq.Wait(ctx, wc); err != nil || wc[0].ID != n {
					t.Errorf("queue %d: request %d, %+v, %v", i, n, wc[0], err)
					return
				}
			}
		})
	}
	group.Wait()
}

func TestAllocs(t *testing.T) {
	k, r := newFake(t)
	k.HoldDoorbells(true)
	a, b := r.pair(verbs.QPConfig{Type: verbs.RC, MaxSend: 1000, MaxRecv: 1000, MaxInline: 64, MaxSendSGE: 2})
	d := r.qp(verbs.QPConfig{Type: verbs.UD, MaxSend: 1000})
	must(t, d.Start())
	to, err := d.Dest(r.address(d))
	must(t, err)
	srq, err := r.pd.CreateSRQ(verbs.SRQConfig{MaxRecv: 1000})
	must(t, err)
	at, wc := r.mr.Remote(0), make([]verbs.WC, 16)
	for name, call := range map[string]func() error{
		"Send":        func() error { return a.Send(1, 0, r.mr.SGE(0, 8), r.mr.SGE(8, 8)) },
		"SendInline":  func() error { var word [8]byte; return a.SendInline(1, 0, word[:]) },
		"SendTo":      func() error { return d.SendTo(1, 0, to, r.mr.SGE(0, 8)) },
		"Write":       func() error { return a.Write(1, 0, at, r.mr.SGE(0, 8)) },
		"WriteImm":    func() error { return a.WriteImm(1, 0, 7, at, r.mr.SGE(0, 8)) },
		"WriteInline": func() error { var word [8]byte; return a.WriteInline(1, 0, at, word[:]) },
		"Read":        func() error { return a.Read(1, 0, at, r.mr.SGE(0, 8)) },
		"CompareSwap": func() error { return a.CompareSwap(1, 0, at, 1, 2, r.mr.SGE(0, 8)) },
		"FetchAdd":    func() error { return a.FetchAdd(1, 0, at, 1, r.mr.SGE(0, 8)) },
		"Ring":        func() error { return errors.Join(a.Write(1, 0, at), a.Ring()) },
		"Recv":        func() error { return b.Recv(1, r.mr.SGE(0, 8)) },
		"SRQ.Recv":    func() error { return srq.Recv(1, r.mr.SGE(0, 8)) },
		"Poll":        func() error { _, err := r.cq.Poll(wc); return err },
	} {
		if n := alloctest.Count(30, func() { must(t, call()) }); n != 0 { // at most 1000 sends in all
			t.Errorf("%s allocates %v times", name, n)
		}
	}
	k.HoldDoorbells(false)
	must(t, a.Ring())
	full := func() { // 16 completions at a time
		for range 16 {
			must(t, b.Write(1, verbs.Signaled, at))
		}
		must(t, b.Ring())
	}
	full()
	if n := alloctest.Count(1, func() {
		if _, err := r.cq.Poll(wc[:1]); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("a poll that returns a completion allocates %v times", n)
	}
	ch, err := r.dev.CreateChannel()
	must(t, err)
	for range alloctest.Calls(1) { // one event each
		cq, err := r.dev.CreateCQ(16, ch)
		must(t, err)
		c, _ := r.pair(verbs.QPConfig{Type: verbs.RC, SendCQ: cq})
		must(t, errors.Join(cq.Notify(false), c.Write(1, verbs.Signaled, at), c.Ring()))
	}
	if n := alloctest.Count(1, func() {
		if cq, err := ch.Next(); cq == nil || err != nil {
			t.Errorf("after a completion: %v, %v", cq, err)
		}
	}); n != 0 {
		t.Errorf("reading an event of a channel allocates %v times", n)
	}
}

// BenchmarkPollEmpty polls an empty queue in mapped memory.
func BenchmarkPollEmpty(b *testing.B) {
	_, r := newFake(b)
	wc := make([]verbs.WC, 16)
	for b.Loop() {
		if n, err := r.cq.Poll(wc); n != 0 || err != nil {
			b.Fatal(n, err)
		}
	}
}

// BenchmarkPost measures the cost of a post without the device, which executes 512 requests at a time outside the measurement.
func BenchmarkPost(b *testing.B) {
	k, r := newFake(b)
	a, _ := r.pair(verbs.QPConfig{Type: verbs.RC, MaxSend: 1000, MaxInline: 64})
	at, sge := r.mr.Remote(0), r.mr.SGE(0, 8)
	for name, post := range map[string]func() error{
		"Write":       func() error { return a.Write(1, 0, at, sge) },
		"WriteInline": func() error { var word [8]byte; return a.WriteInline(1, 0, at, word[:]) },
	} {
		b.Run(name, func(b *testing.B) {
			const batch = 512
			var took time.Duration
			for range b.N {
				k.HoldDoorbells(true)
				began := time.Now()
				for range batch {
					if err := post(); err != nil {
						b.Fatal(err)
					}
				}
				took += time.Since(began)
				k.HoldDoorbells(false)
				must(b, a.Ring())
			}
			b.ReportMetric(float64(took.Nanoseconds())/float64(b.N*batch), "ns/request")
		})
	}
}

// TestCompVectors creates a completion queue with each completion vector of the device, and with vectors that it does not have.
func TestCompVectors(t *testing.T) {
	k, r := newFake(t) // its queue has vector 0
	if n := r.dev.CompVectors(); n != rxetest.CompVectors {
		t.Errorf("%d completion vectors, want %d", n, rxetest.CompVectors)
	}
	for v := range r.dev.CompVectors() {
		_, err := r.dev.CreateCQVector(8, nil, v)
		must(t, err)
	}
	if got, want := k.CQVectors(), [rxetest.CompVectors]int{2, 1, 1}; got != want {
		t.Errorf("queues by vector %v, want %v", got, want)
	}
	for _, v := range []int{-1, rxetest.CompVectors} {
		if _, err := r.dev.CreateCQVector(8, nil, v); !errors.Is(err, verbs.ErrInvalid) || !strings.Contains(err.Error(), "0 to 2") {
			t.Errorf("vector %d: %v, want ErrInvalid with the range", v, err)
		}
	}
}
