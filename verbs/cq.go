package verbs

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/ibrun/ibrun/verbs/internal/ib"
)

// CQ is a completion queue. Its methods may be called by any goroutine at any time.
type CQ struct {
	base
	ib    ib.CQ
	ring  *ib.CompletionRing // of ib, or nil if ib is not a ring. Completions are taken directly from it
	ch    *Channel           // or nil
	token uint64

	// indices are those of the ring. Poll compares them without taking mu. The pointer is nil if every poll must take mu: because
	// there is no ring, or because the queue is closed or has failed.
	indices atomic.Pointer[ib.Indices]

	mu     sync.Mutex // guards failed, and is held during ib.CQ.Poll
	failed error      // what Poll returns when the queue is empty: overrun, device lost or closed
}

// CreateCQ creates a completion queue for at least n completions. Never have more requests outstanding than its capacity: the
// queue overruns then, completions are lost, and it cannot be used any more. [CQ.Notify] sends events to the channel, which may
// be nil.
func (c *Context) CreateCQ(n int, ch *Channel) (*CQ, error) { return c.CreateCQVector(n, ch, 0) }

// CompVectors returns the number of the device's completion vectors, at least 1. Each is an interrupt, usually of one core:
// queues with different vectors wake their waiters on different cores.
func (c *Context) CompVectors() int { return max(c.ib.CompVectors(), 1) }

// CreateCQVector is CreateCQ with the completion vector by which the events of the queue arrive, from 0 to
// [Context.CompVectors] - 1.
func (c *Context) CreateCQVector(n int, ch *Channel, vector int) (*CQ, error) {
	const op = "create a completion queue"
	if vectors := c.CompVectors(); vector < 0 || vector >= vectors {
		return nil, c.refuse(op, ErrInvalid, "completion vector %d; the device has 0 to %d", vector, vectors-1)
	}
	if n < 1 || int64(n) > int64(c.caps.MaxCQE) {
		return nil, c.refuse(op, ErrInvalid, "%d entries; the device takes 1 to %d", n, c.caps.MaxCQE)
	}
	cq := &CQ{base: c.newBase(kindCQ), ch: ch}
	cq.onDeviceLost = func() { cq.setFailed(ErrDeviceLost) }
	var to ib.Channel
	if ch != nil {
		cq.uses, to = []*base{&ch.base}, ch.ib
	}
	err := cq.open(op, cq.Close, func() (err error) {
		if cq.ib, err = c.ib.CreateCQ(n, to, vector); err != nil {
			return err
		}
		if r, ok := cq.ib.(ib.HasCompletionRing); ok {
			cq.ring = r.CompletionRing()
		}
		cq.loadIndices()
		cq.token = cq.ib.Token()
		c.register(cq.token, cq)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return cq, nil
}

// loadIndices lets Poll compare the indices of the ring. Resize replaces the ring.
func (cq *CQ) loadIndices() {
	if cq.ring != nil {
		cq.indices.Store(cq.ring.Indices())
	}
}

// Len returns how many completions the queue can hold.
func (cq *CQ) Len() int { return cq.ib.Len() }

// setFailed makes Poll fail from now on. Goroutines that wait for the queue return.
func (cq *CQ) setFailed(kind error) {
	cq.mu.Lock()
	if cq.failed == nil {
		cq.failed = cq.refuse("poll", kind, "")
	}
	cq.indices.Store(nil)
	cq.mu.Unlock()
	if cq.ch != nil {
		cq.ch.removeEvents(cq)
	}
}

func (cq *CQ) hasFailed() bool {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	return cq.failed != nil
}

// Notify requests one event on the queue's channel, for the next completion or, if solicited, for the next completion that its
// sender marked as solicited or that failed. A completion that is in the queue already makes no event: poll once more before
// waiting. [CQ.Wait] does all of that.
func (cq *CQ) Notify(solicited bool) error {
	const op = "request an event"
	if err := cq.enter(op); err != nil {
		return err
	}
	defer cq.leave()
	if cq.ch == nil {
		return cq.refuse(op, ErrInvalid, "the completion queue was created without a channel")
	}
	return cq.fail(op, cq.ib.Notify(solicited))
}

// Wait polls the queue, and blocks until there is a completion, using the queue's channel. Any number of goroutines may wait for
// queues of one channel. The errors are those of Poll and of the context, and [ErrInvalid] if there is no completion and the
// queue was created without a channel.
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

// Resize changes the capacity of the queue to at least n. It returns [ErrNotSupported] if the device cannot.
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
	cq.loadIndices()
	return nil
}

// Close closes the queue. It returns [ErrBusy] while a queue pair uses it. A second Close does nothing.
func (cq *CQ) Close() error {
	return cq.shutdown(func() error {
		cq.indices.Store(nil)
		cq.mu.Lock()
		err := cq.ib.Close()
		if kindOf(err) == ErrBusy {
			cq.loadIndices()
			cq.mu.Unlock()
			return err
		}
		cq.failed = cq.refuse("poll", ErrClosed, "")
		cq.mu.Unlock()
		cq.ctx.unregister(cq.token)
		if cq.ch != nil {
			cq.ch.removeEvents(cq)
		}
		return err
	})
}
