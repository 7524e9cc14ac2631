package verbs

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/ibrun/ibrun/verbs/internal/ib"
	"github.com/ibrun/ibrun/verbs/internal/rxe"
)

// CQ is a completion queue. Its methods may be called by any goroutine at any time.
type CQ struct {
	base
	ib    ib.CQ
	soft  *rxe.Completions // of ib, if that is the provider: they are taken straight from it
	ch    *Channel         // or nil
	token uint64

	// peek tells whether the queue is empty. It is nil when every poll has to take the lock: because the provider has none,
	// or because the queue is closed or failed.
	peek atomic.Pointer[ib.Indices]

	mu     sync.Mutex // guards the rest, and is held during ib.Poll
	failed error      // what Poll returns once nothing is left: overrun, device lost, closed
}

// CreateCQ makes a completion queue with room for at least n completions. More than its capacity must never be outstanding: the
// queue overruns, completions are lost, and it is of no more use. The channel is where [CQ.Notify] has events sent, or nil.
func (c *Context) CreateCQ(n int, ch *Channel) (*CQ, error) {
	const op = "make a completion queue"
	if n < 1 || int64(n) > int64(c.caps.MaxCQE) {
		return nil, c.refuse(op, ErrInvalid, "%d entries; the device takes 1 to %d", n, c.caps.MaxCQE)
	}
	cq := &CQ{base: c.child(kindCQ), ch: ch}
	cq.onLoss = func() { cq.poison(ErrDeviceLost) }
	var to ib.Channel
	if ch != nil {
		cq.uses, to = []*base{&ch.base}, ch.ib
	}
	err := cq.open(op, cq.Close, func() (err error) {
		if cq.ib, err = c.ib.CreateCQ(n, to, 0); err != nil {
			return err
		}
		cq.soft = rxe.CompletionsOf(cq.ib)
		cq.setPeek()
		cq.token = cq.ib.Token()
		c.known(cq.token, cq)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return cq, nil
}

func (cq *CQ) setPeek() {
	if p, ok := cq.ib.(ib.Peeker); ok {
		cq.peek.Store(p.Indices())
	}
}

// Len is how many completions the queue can hold.
func (cq *CQ) Len() int { return cq.ib.Len() }

// Poll takes up to len(wc) completions and returns their number, without allocation or system call. After an overrun it is
// [ErrOverrun], and when the device is gone and nothing is left [ErrDeviceLost]: what is missing then never completes. The
// first failed completion of a queue pair takes two system calls, by which what was received too late is flushed.
func (cq *CQ) Poll(wc []WC) (int, error) {
	if p := cq.peek.Load(); p != nil && atomic.LoadUint32(&p.Producer) == atomic.LoadUint32(&p.Consumer) {
		runtime.KeepAlive(cq) // and with it the words
		return 0, nil
	}
	cq.mu.Lock()
	if cq.soft == nil || cq.failed != nil {
		return cq.poll(wc)
	}
	n, failed := cq.soft.Take(castWC(wc))
	cq.mu.Unlock()
	if failed {
		cq.doubt(wc[:n])
	}
	return n, nil
}

// poll is Poll of a queue of another provider, or of one that has failed. The caller has taken the lock; poll gives it back.
func (cq *CQ) poll(wc []WC) (int, error) {
	if cq.failed != nil && !cq.rest() {
		defer cq.mu.Unlock()
		return 0, cq.failed
	}
	n, err := cq.ib.Poll(castWC(wc))
	if n == 0 { // most polls end here, and this is all that they do
		if err != nil {
			err = cq.fail("poll", err)
		} else if len(wc) > 0 {
			err = cq.failed
		}
		cq.mu.Unlock()
		return 0, err
	}
	cq.mu.Unlock()
	cq.doubt(wc[:n])
	return n, nil
}

// doubt doubts the queue pairs whose completions have failed.
func (cq *CQ) doubt(wc []WC) {
	for i := range wc {
		if wc[i].Status != StatusSuccess {
			cq.ctx.doubt(wc[i].QPN)
		}
	}
}

// rest tells whether a queue that has failed may still hold completions: when the device was lost.
func (cq *CQ) rest() bool {
	e, ok := cq.failed.(*Error)
	return ok && e.Kind == ErrDeviceLost
}

// poison has Poll fail from now on, and wakes who waits.
func (cq *CQ) poison(kind error) {
	cq.mu.Lock()
	if cq.failed == nil {
		cq.failed = cq.refuse("poll", kind, "")
	}
	cq.peek.Store(nil)
	cq.mu.Unlock()
	if cq.ch != nil {
		cq.ch.drop(cq)
	}
}

func (cq *CQ) hasFailed() bool {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	return cq.failed != nil
}

// Notify asks for one event on the queue's channel, for the next completion or, if solicited, for the next that its sender
// marked so or that failed. A completion that is there already makes no event: poll once more before waiting. [CQ.Wait]
// does all of that.
func (cq *CQ) Notify(solicited bool) error {
	const op = "ask for an event"
	if err := cq.enter(op); err != nil {
		return err
	}
	defer cq.leave()
	if cq.ch == nil {
		return cq.refuse(op, ErrInvalid, "the completion queue was made without a channel")
	}
	return cq.fail(op, cq.ib.Notify(solicited))
}

// Wait is Poll that waits until there is something, using the queue's channel. Any number of goroutines may wait for queues
// of one channel. Beside those of Poll, the errors are those of the context.
func (cq *CQ) Wait(ctx context.Context, wc []WC) (int, error) {
	for {
		if n, err := cq.Poll(wc); n > 0 || err != nil {
			return n, err
		}
		if err := cq.Notify(false); err != nil {
			return 0, err
		}
		if n, err := cq.Poll(wc); n > 0 || err != nil {
			return n, err
		}
		if _, err := cq.ch.wait(ctx, cq); err != nil {
			return 0, err
		}
	}
}

// Resize changes how many completions the queue can hold to at least n. Devices that cannot say [ErrNotSupported].
func (cq *CQ) Resize(n int) error {
	const op = "resize the completion queue"
	if err := cq.enter(op); err != nil {
		return err
	}
	defer cq.leave()
	if n < 1 || int64(n) > int64(cq.ctx.caps.MaxCQE) {
		return cq.refuse(op, ErrInvalid, "%d entries; the device takes 1 to %d", n, cq.ctx.caps.MaxCQE)
	}
	cq.mu.Lock()
	defer cq.mu.Unlock()
	if cq.failed != nil {
		return cq.failed
	}
	if err := cq.ib.Resize(n); err != nil {
		return cq.fail(op, err)
	}
	cq.setPeek()
	return nil
}

// Close closes the queue. While a queue pair uses it, it is [ErrBusy]. A second Close does nothing.
func (cq *CQ) Close() error {
	return cq.shut(func() error {
		cq.peek.Store(nil)
		cq.mu.Lock()
		err := cq.ib.Close()
		if kindOf(err) == ErrBusy {
			cq.setPeek()
			cq.mu.Unlock()
			return err
		}
		cq.failed = cq.refuse("poll", ErrClosed, "")
		cq.mu.Unlock()
		cq.ctx.forget(cq.token)
		if cq.ch != nil {
			cq.ch.drop(cq)
		}
		return err
	})
}
