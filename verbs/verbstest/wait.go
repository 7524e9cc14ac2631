package verbstest

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/ibrun/ibrun/verbs"
)

// pairWithChannel makes a connected pair. The completion queue of b has a channel.
func (r *fixture) pairWithChannel() (a, b *endpoint, ch *verbs.Channel) {
	r.t.Helper()
	ch = must(r.ctx.CreateChannel())(r.t)
	a, b = r.newEndpoint(verbs.QPConfig{}), r.newEndpoint(verbs.QPConfig{SendCQ: r.cq(64, ch)})
	a.connect(b, verbs.DefaultParams())
	b.connect(a, verbs.DefaultParams())
	return a, b, ch
}

// checkNoEvent checks that no event has arrived.
func (r *fixture) checkNoEvent(ch *verbs.Channel, when string) {
	r.t.Helper()
	if cq, err := ch.Next(); cq != nil || err != nil {
		r.t.Fatalf("%s: %v, %v", when, cq, err)
	}
}

// Each Notify gives one event. After Notify(true) only a solicited completion or an error gives it.
func checkSolicited(t *testing.T, open Open) {
	r := newFixture(t, open)
	a, b, ch := r.pairWithChannel()
	send := func(f verbs.Flags) {
		t.Helper()
		into := b.postRecv(b.mr.SGE(0, 8))
		r.awaitSuccess(a.postAndRing(verbs.Request{Op: verbs.OpSend, Flags: f, SGE: sgeList(a.mr, 0, 8)}), into)
	}
	wait := func() {
		t.Helper()
		if cq := must(ch.Wait(r.context()))(t); cq != b.cq {
			t.Fatal("the event is of another completion queue")
		}
	}
	send(verbs.Solicited)
	r.checkNoEvent(ch, "before Notify")
	for _, solicited := range []bool{false, true} {
		if err := b.cq.Notify(solicited); err != nil {
			t.Fatal(err)
		}
		r.checkNoEvent(ch, "before a SEND")
		if solicited {
			for range 3 {
				send(0)
			}
			r.checkNoEvent(ch, "without a solicited SEND")
		}
		send(verbs.Solicited)
		wait()
		for range 3 {
			send(verbs.Solicited)
		}
		r.checkNoEvent(ch, "after the one event")
	}
	b.postRecv(b.mr.SGE(0, 8))
	if err := b.cq.Notify(true); err != nil {
		t.Fatal(err)
	}
	if err := b.Modify(verbs.Attr{State: verbs.StateErr}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	wait()
	r.drain()
	r.checkError(a.cq.Notify(false), verbs.ErrInvalid, "notify without a channel")
}

// Endpoints that block between messages lose no wakeup.
func checkSleep(t *testing.T, open Open) {
	r := newFixture(t, open)
	ch := must(r.ctx.CreateChannel())(t)
	a := r.newEndpoint(verbs.QPConfig{SendCQ: must(r.ctx.CreateCQ(64, ch))(t)})
	b := r.newEndpoint(verbs.QPConfig{SendCQ: must(r.ctx.CreateCQ(64, ch))(t)})
	a.connect(b, verbs.DefaultParams())
	b.connect(a, verbs.DefaultParams())
	const rounds = 200
	ctx := r.context()
	var errs [2]error
	var done sync.WaitGroup
	for i, e := range []*endpoint{a, b} {
		done.Go(func() { errs[i] = e.pingPong(ctx, rounds, i == 0) })
	}
	done.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithCancel(ctx)
	stop := time.AfterFunc(time.Millisecond, cancel)
	defer stop.Stop()
	if _, err := a.cq.Wait(short, make([]verbs.WC, 1)); !errors.Is(err, context.Canceled) {
		t.Fatalf("a canceled wait: %v", err)
	}
	if _, err := must(r.ctx.CreateChannel())(t).Wait(short); !errors.Is(err, context.Canceled) {
		t.Fatalf("a wait with a canceled context: %v", err)
	}
}

// pingPong runs one side of a ping-pong and blocks for each completion. The side with serves sends first.
func (e *endpoint) pingPong(ctx context.Context, rounds int, serves bool) error {
	wcs := make([]verbs.WC, 4)
	const recv = 1 << 32
	if err := e.Recv(recv, e.mr.SGE(8, 8)); err != nil {
		return err
	}
	for got, sent := 0, 0; got < rounds || sent < rounds; {
		if serves && sent < rounds {
			if err := e.Send(uint64(sent), verbs.Signaled, e.mr.SGE(0, 8)); err != nil {
				return err
			}
			if err := e.Ring(); err != nil {
				return err
			}
			sent++
			serves = false
		}
		if got == rounds {
			break
		}
		n, err := e.cq.Wait(ctx, wcs)
		if err != nil {
			return err
		}
		for _, wc := range wcs[:n] {
			if wc.Err() != nil {
				return wc.Err()
			}
			if wc.Opcode != verbs.WCRecv {
				continue
			}
			if wc.ID != uint64(recv+got) {
				return errors.New("receives complete out of order")
			}
			got++
			serves = true
			if err := e.Recv(uint64(recv+got), e.mr.SGE(8, 8)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Many goroutines wait for completion queues of one channel. Each is woken by its own queue.
func checkSleepMany(t *testing.T, open Open) {
	r := newFixture(t, open)
	ch := must(r.ctx.CreateChannel())(t)
	const sleepers = 8
	var from, to [sleepers]*endpoint
	for i := range sleepers {
		from[i], to[i] = r.newEndpoint(verbs.QPConfig{}), r.newEndpoint(verbs.QPConfig{SendCQ: must(r.ctx.CreateCQ(16, ch))(t)})
		from[i].connect(to[i], verbs.DefaultParams())
		to[i].connect(from[i], verbs.DefaultParams())
	}
	for range 5 {
		var got [sleepers]verbs.WC
		var errs [sleepers]error
		var done sync.WaitGroup
		for i, e := range to {
			id := r.tracker.nextID()
			if err := e.Recv(id, e.mr.SGE(0, 8)); err != nil {
				t.Fatal(err)
			}
			done.Go(func() {
				wcs := make([]verbs.WC, 2)
				n, err := e.cq.Wait(r.context(), wcs)
				if errs[i] = err; err == nil && (n != 1 || wcs[0].ID != id) {
					errs[i] = errors.New("woken by a completion of another request")
				}
				got[i] = wcs[0]
			})
		}
		for i := range sleepers { // last sleeper first
			e := from[sleepers-1-i]
			r.awaitSuccess(e.postAndRing(verbs.Request{Op: verbs.OpSend, SGE: sgeList(e.mr, 0, 8)}))
		}
		done.Wait()
		if err := errors.Join(errs[:]...); err != nil {
			t.Fatal(err)
		}
		for i, wc := range got {
			if wc.Err() != nil || wc.QPN != to[i].Num() {
				t.Fatalf("sleeper %d: %+v", i, wc)
			}
		}
	}
	r.drain()
}

// Closing an object wakes the goroutines that wait for it.
func checkCloseWakes(t *testing.T, open Open) {
	for _, what := range []string{"one by one", "with the device"} {
		r := newFixture(t, open)
		ch, other := must(r.ctx.CreateChannel())(t), must(r.ctx.CreateChannel())(t)
		cq := must(r.ctx.CreateCQ(8, ch))(t)
		const each = 2
		waits := []func(context.Context) error{
			func(ctx context.Context) error { _, err := cq.Wait(ctx, make([]verbs.WC, 1)); return err },
			func(ctx context.Context) error { _, err := other.Wait(ctx); return err },
			func(ctx context.Context) error { _, err := r.ctx.NextEvent(ctx); return err },
		}
		ctx, woken, awake := r.context(), make(chan error, each*len(waits)), 0
		for _, wait := range waits {
			for range each {
				go func() { woken <- wait(ctx) }()
			}
		}
		for range 100 {
			runtime.Gosched() // most of them block meanwhile; the test is correct in any case
		}
		if what == "one by one" {
			var closed sync.WaitGroup
			for _, c := range []interface{ Close() error }{cq, ch, other} {
				closed.Go(func() {
					if err := c.Close(); err != nil && !errors.Is(err, verbs.ErrBusy) {
						t.Error(err)
					}
				})
			}
			for ; awake < 2*each; awake++ {
				r.checkError(<-woken, verbs.ErrClosed, "a wait for a closed object")
			}
			closed.Wait()
		}
		if err := r.ctx.Close(); err != nil {
			t.Fatal(err)
		}
		for ; awake < each*len(waits); awake++ {
			r.checkError(<-woken, verbs.ErrClosed, "a wait on a closed device")
		}
	}
}

// An overrun of a completion queue gives an event, makes every poll fail, and wakes waiting goroutines.
func checkOverrun(t *testing.T, open Open) {
	r := newFixture(t, open)
	ch := must(r.ctx.CreateChannel())(t)
	small := must(r.ctx.CreateCQ(4, ch))(t)
	n := small.Len()
	a, b := r.newEndpoint(verbs.QPConfig{SendCQ: small, MaxSend: 2*n + 8}), r.newEndpoint(verbs.QPConfig{})
	a.connect(b, verbs.DefaultParams())
	b.connect(a, verbs.DefaultParams())
	for i := range 2*n + 4 {
		if err := a.Write(uint64(i), verbs.Signaled, b.mr.Remote(0), a.mr.SGE(0, 8)); err != nil {
			t.Fatal(err)
		}
	}
	a.ringDoorbell()
	if ev := r.awaitEvent(verbs.EventCQError); ev.CQ != small {
		t.Fatalf("the event is %v", ev)
	}
	for range 3 {
		_, err := small.Poll(r.wcs[:])
		r.checkError(err, verbs.ErrOverrun, "poll an overrun queue")
		_, err = small.Wait(r.context(), r.wcs[:])
		r.checkError(err, verbs.ErrOverrun, "wait for an overrun queue")
	}
	// Other objects of the device still work, and the failed ones can be closed.
	c, d := r.pair(verbs.QPConfig{})
	r.exchange(c, d)
	for _, c := range []interface{ Close() error }{a, small, ch} {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	b.close()
	r.drain()
}
