package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// errStop is the cause with which these tests cancel a context.
var errStop = errors.New("stop")

// wantStopped checks that a call ended because its context was cancelled with errStop.
func wantStopped(what string, err error, class mpi.Class) error {
	if !errors.Is(err, context.Canceled) || !errors.Is(err, errStop) {
		return fmt.Errorf("%s: %w, want an error of the context", what, err)
	}
	return ofClass(err, class)
}

// cancelledSoon returns a context that another goroutine cancels at a random moment, or that has ended.
func cancelledSoon(rnd *rand.Rand) context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	n := rnd.IntN(40)
	if n == 0 {
		cancel(errStop)
		return ctx
	}
	go func() {
		for range n {
			runtime.Gosched()
		}
		cancel(errStop)
	}()
	return ctx
}

// TestRecvContextRandom cancels receives at random moments: no message is lost, doubled, or delivered to a buffer that the
// program has got back. Messages of all protocols come, also those for which receives announce their buffers.
func TestRecvContextRandom(t *testing.T) {
	for _, exact := range []string{"false", "true"} {
		mpitest.Run(t, 2, func(p *mpi.Process) error {
			c, err := p.World().DupWithInfo(infoOf(exactLength, exact))
			if err != nil {
				return err
			}
			const messages = 600
			lengths := []int{1, 300, 6000, 30000}
			if c.Rank() == 0 {
				for i := range messages {
					if err := mpi.Send(c, numbers(lengths[i/3%len(lengths)], i), 1, 5); err != nil {
						return err
					}
				}
				return c.Free()
			}
			if err := recvCancelled(c, messages, lengths); err != nil {
				return err
			}
			return c.Free()
		})
	}
}

func recvCancelled(c *mpi.Comm, messages int, lengths []int) error {
	rnd := rand.New(rand.NewPCG(1, 2))
	var returned [][]int32
	cancelled := 0
	for i := 0; i < messages || cancelled < 1000; {
		n := lengths[min(i, messages-1)/3%len(lengths)]
		x := make([]int32, n)
		src := []int{0, mpi.AnySource}[rnd.IntN(2)]
		st, err := mpi.RecvContext(cancelledSoon(rnd), c, x, src, 5)
		if err == nil {
			if err := expect(st, 0, 5, 4*n); err != nil || !slices.Equal(x, numbers(n, i)) {
				return fmt.Errorf("message %d: %w", i, err)
			}
			i++
			continue
		}
		if err := wantStopped("RecvContext", err, mpi.ErrOther); err != nil || !st.Cancelled() {
			return fmt.Errorf("%+v: %w", st, err)
		}
		if cancelled++; len(returned) < 200 {
			returned = append(returned, x)
		}
	}
	for _, x := range returned {
		if slices.Max(x) != 0 {
			return errors.New("a message was delivered to the buffer of a cancelled receive")
		}
	}
	return nil
}

// TestSendContextRandom ends sends at random moments: a message whose send has ended matches no receive, and all others are
// received in order. They are of all protocols, of slices and views, and checked or not.
func TestSendContextRandom(t *testing.T) {
	mpitest.Run(t, 2, sendCancelled)
	runChecked(t, 2, sendCancelled)
}

func sendCancelled(p *mpi.Process) error {
	const messages = 600
	w := p.World()
	rnd := rand.New(rand.NewPCG(1, uint64(w.Rank())))
	x := make([]int32, 60000)
	if w.Rank() == 1 {
		for i := range messages {
			for range rnd.IntN(30) {
				runtime.Gosched()
			}
			st, err := mpi.Recv(w, x, 0, 5)
			if err != nil || x[0] != int32(i) || x[st.Bytes()/4-1] != int32(i) {
				return fmt.Errorf("message %d: %+v, %d: %w", i, st, x[0], err)
			}
		}
		_, found, err := w.Iprobe(0, 5)
		return errors.Join(err, check(!found, "there is one more message"), w.Barrier()) // rank 0 has not left before
	}
	withdrawn := 0
	for i := 0; i < messages; {
		n := []int{1, 300, 6000, 30000}[i/5%4]
		for j := range 2 * n {
			x[j] = int32(i)
		}
		ctx := cancelledSoon(rnd)
		err := []func() error{
			func() error { return mpi.SendContext(ctx, w, x[:n], 1, 5) },
			func() error { return mpi.SsendContext(ctx, w, x[:n], 1, 5) },
			func() error { return w.SendContext(ctx, mpi.ArrayOf(x[:2*n], n, 2).Col(1), 1, 5) },
			func() error { return w.SsendContext(ctx, mpi.ArrayOf(x[:2*n], n, 2).Col(1), 1, 5) },
			func() error { return mpi.SendOneContext(ctx, w, int32(i), 1, 5) },
		}[i%5]()
		for j := range x { // the message has left, or is taken back
			x[j] = -1
		}
		if err == nil {
			i++
			continue
		}
		withdrawn++
		if err := wantStopped("SendContext", err, mpi.ErrOther); err != nil {
			return err
		}
	}
	return errors.Join(check(withdrawn != 0, "no send has ended early"), w.Barrier())
}

// TestSendContextEnds: a send whose context has ended sends nothing, one whose context ends while it waits takes its message
// back, and the errors of wrong arguments are those of Send.
func TestSendContextEnds(t *testing.T) {
	mpitest.Run(t, 2, func(p *mpi.Process) error {
		return first(p, func(w *mpi.Comm) error {
			ended, cancel := context.WithCancelCause(context.Background())
			cancel(errStop)
			long := make([]float64, 3<<20) // longer than what is sent without waiting for the receiver
			var errs []error
			for name, send := range map[string]func(ctx context.Context) error{
				"SendContext":  func(ctx context.Context) error { return mpi.SendContext(ctx, w, long, 1, 2) },
				"SsendContext": func(ctx context.Context) error { return mpi.SsendContext(ctx, w, long[:1], 1, 2) },
				"of structs":   func(ctx context.Context) error { return mpi.SsendContext(ctx, w, make([]dense, 2), 1, 2) },
				"of a view": func(ctx context.Context) error {
					return w.SsendContext(ctx, mpi.ArrayOf(long[:100_000], 10, 10_000).Col(0), 1, 2)
				},
				"SendValueContext": func(ctx context.Context) error { return mpi.SendValueContext(ctx, w, long, 1, 2) },
			} {
				ctx, cancel := context.WithCancelCause(context.Background())
				time.AfterFunc(time.Millisecond, func() { cancel(errStop) })
				errs = append(errs, wantStopped(name+" later", send(ctx), mpi.ErrOther),
					wantStopped(name+" before", send(ended), mpi.ErrOther))
			}
			errs = append(errs, ofClass(mpi.SendContext(ended, nil, long, 1, 1), mpi.ErrComm),
				ofClass(mpi.SendContext(context.Background(), w, long, 7, 1), mpi.ErrRank),
				ofClass(mpi.SendContext(context.Background(), w, []string{"x"}, 1, 1), mpi.ErrType),
				ofClass(mpi.SendValueContext(context.Background(), w, func() {}, 1, 1), mpi.ErrType),
				mpi.SendContext(context.Background(), w, long, mpi.ProcNull, 1),
				mpi.SendValueContext(context.Background(), w, "hello", 1, 1), w.Barrier())
			return errors.Join(errs...)
		}, func(w *mpi.Comm) error {
			s, _, err := mpi.RecvValue[string](w, 0, 1) // the others have tag 2
			_, found, err1 := w.Iprobe(0, mpi.AnyTag)
			return errors.Join(err, err1, check(s == "hello" && !found, "%.9q, another message: %v", s, found), w.Barrier())
		})
	})
}

// TestContextEnds: every call with a context blocks until that ends, and the communicator can be used afterwards.
func TestContextEnds(t *testing.T) {
	mpitest.Run(t, 2, func(p *mpi.Process) error {
		w := p.World()
		x := make([]int32, 1)
		r, err := mpi.Irecv(w, x, 1-w.Rank(), 9)
		if err != nil {
			return err
		}
		reqs := []mpi.Request{{}, r}
		for what, call := range map[string]struct {
			class mpi.Class
			f     func(ctx context.Context) error
		}{
			"RecvContext": {mpi.ErrOther, func(ctx context.Context) error {
				_, err := mpi.RecvContext(ctx, w, x, 1-w.Rank(), 8)
				return err
			}},
			"ProbeContext": {mpi.ErrOther, func(ctx context.Context) error {
				_, err := w.ProbeContext(ctx, mpi.AnySource, 8)
				return err
			}},
			"MprobeContext": {mpi.ErrOther, func(ctx context.Context) error {
				m, _, err := w.MprobeContext(ctx, mpi.AnySource, 8)
				if m != nil {
					return errors.New("a message")
				}
				return err
			}},
			"WaitContext": {mpi.ErrPending, func(ctx context.Context) error {
				_, err := r.WaitContext(ctx)
				return err
			}},
			"WaitanyContext": {mpi.ErrPending, func(ctx context.Context) error {
				i, _, err := mpi.WaitanyContext(ctx, reqs)
				return orCheck(err, i == mpi.Undefined)
			}},
			"WaitsomeContext": {mpi.ErrPending, func(ctx context.Context) error {
				n, err := mpi.WaitsomeContext(ctx, reqs, make([]int, 2), nil)
				return orCheck(err, n == 0)
			}},
			"WaitallContext": {mpi.ErrPending, func(ctx context.Context) error {
				return mpi.WaitallContext(ctx, reqs, make([]mpi.Status, 2))
			}},
		} {
			ended, cancel := context.WithCancelCause(context.Background())
			cancel(errStop)
			if err := wantStopped(what+" with a context that has ended", call.f(ended), call.class); err != nil {
				return err
			}
			ctx, cancel := context.WithCancelCause(context.Background())
			time.AfterFunc(time.Millisecond, func() { cancel(errStop) })
			if err := wantStopped(what, call.f(ctx), call.class); err != nil {
				return err
			}
		}
		if reqs[1] != r {
			return errors.New("WaitallContext has changed a request that has not completed")
		}
		if err := errors.Join(w.Barrier(), mpi.Send(w, numbers(1, 7), 1-w.Rank(), 9)); err != nil {
			return err
		}
		return errors.Join(contextsArrive(w, r, x), w.Barrier())
	})
}

// contextsArrive: calls whose context ends later, or not at all, return what has arrived. r receives 7 into x.
func contextsArrive(w *mpi.Comm, r mpi.Request, x []int32) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	st, err := r.WaitContext(ctx)
	if err := errors.Join(err, expect(st, 1-w.Rank(), 9, 4)); err != nil || x[0] != 7 {
		return fmt.Errorf("WaitContext: %v: %w", x, err)
	}
	for i, ctx := range []context.Context{ctx, context.Background()} {
		y := make([]int32, 1)
		for tag := range 4 {
			if err := mpi.Send(w, numbers(1, i), 1-w.Rank(), tag); err != nil {
				return err
			}
		}
		_, err := w.ProbeContext(ctx, 1-w.Rank(), 0)
		_, err1 := mpi.RecvContext(ctx, w, y, 1-w.Rank(), 0)
		m, st, err2 := w.MprobeContext(ctx, 1-w.Rank(), 1)
		if err := errors.Join(err, err1, err2, expect(st, 1-w.Rank(), 1, 4)); err != nil || y[0] != int32(i) {
			return fmt.Errorf("%v: %w", y, err)
		}
		a, err := mpi.Imrecv(m, y)
		b, err1 := mpi.Irecv(w, x, 1-w.Rank(), 2)
		reqs := []mpi.Request{a, {}, b}
		if err := errors.Join(err, err1, mpi.WaitallContext(ctx, reqs, nil)); err != nil || reqs[2] != (mpi.Request{}) {
			return fmt.Errorf("WaitallContext: %w", err)
		}
		if _, err := mpi.RecvContext(ctx, w, y[:0], 1-w.Rank(), 3); !errors.Is(err, mpi.ErrTruncate) {
			return fmt.Errorf("RecvContext of a message that is too long: %w", err)
		}
	}
	var zero mpi.Request
	st, err = zero.WaitContext(ctx)
	_, stale := r.WaitContext(ctx)
	_, rank := mpi.RecvContext(ctx, w, x, 99, 0)
	_, null := w.ProbeContext(ctx, mpi.ProcNull, 0)
	_, _, null2 := w.MprobeContext(ctx, mpi.ProcNull, 0)
	return errors.Join(err, expect(st, mpi.AnySource, mpi.AnyTag, 0), wantClass("stale", stale, mpi.ErrRequest),
		wantClass("rank", rank, mpi.ErrRank), null, null2,
		wantClass("lengths", mpi.WaitallContext(ctx, make([]mpi.Request, 2), make([]mpi.Status, 1)), mpi.ErrArg))
}

// orCheck returns err if ok is set, and another error otherwise.
func orCheck(err error, ok bool) error {
	if !ok {
		return errors.New("a request was completed")
	}
	return err
}

// TestBarrierContextRandom leaves barriers at random moments. Each barrier that a rank passes is passed by all ranks, and later
// collectives work.
func TestBarrierContextRandom(t *testing.T) {
	const rounds = 150
	mpitest.Run(t, 3, func(p *mpi.Process) error {
		c, err := p.World().Dup()
		if err != nil {
			return err
		}
		rnd := rand.New(rand.NewPCG(uint64(c.Rank()), 3))
		for passed := 0; passed < rounds; {
			err := c.BarrierContext(cancelledSoon(rnd))
			if err != nil {
				if err := wantStopped("BarrierContext", err, mpi.ErrOther); err != nil {
					return err
				}
				if rnd.IntN(3) != 0 {
					continue
				}
				if err = c.BarrierContext(context.Background()); err != nil {
					return err
				}
			}
			if passed++; passed%10 != 0 {
				continue
			}
			sum, err := mpi.AllreduceOne(c, passed, mpi.Sum)
			if err != nil || sum != 3*passed {
				return fmt.Errorf("after %d barriers the sum is %d: %w", passed, sum, err)
			}
		}
		return c.Free()
	})
}
