package verbs

import (
	"context"
	"slices"
	"sync"

	"github.com/ibrun/ibrun/verbs/internal/ib"
	"github.com/ibrun/ibrun/verbs/internal/uverbs"
)

// Channel is a completion channel: it tells which completion queues have something to poll. Who waits in it is parked in the Go
// runtime's poller and takes no thread. Its methods may be called by any goroutine at any time.
type Channel struct {
	base
	ib ib.Channel
	fd *descriptor

	turn  chan struct{}               // holds a token while a goroutine reads; the others wait for what it reads
	event [uverbs.CompEventBytes]byte // what was read. It belongs to who has the turn, as a buffer that is not made anew each time

	mu      sync.Mutex
	news    chan struct{} // closed when one of the following changes, nil while nobody waits for that
	reading bool          // who has the turn may be parked, and is to be interrupted then
	todo    []*CQ         // have an event that nobody took
	cause   error         // why nothing comes any more
}

// CreateChannel makes a completion channel.
func (c *Context) CreateChannel() (*Channel, error) {
	const op = "make a completion channel"
	ch := &Channel{base: c.child(kindChannel), turn: make(chan struct{}, 1)}
	ch.onLoss = func() { ch.finish(ErrDeviceLost) }
	err := ch.open(op, ch.Close, func() (err error) {
		if ch.ib, err = c.ib.CreateChannel(); err != nil {
			return err
		}
		if ch.fd, err = newDescriptor(ch.ib.FD(), ch.ib); err != nil {
			ch.ib.Close()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return ch, nil
}

// FD is the descriptor behind the channel, for programs that wait for many things in one poll(2): it is readable while
// there is an event for [Channel.Next]. It belongs to the channel and must not be read.
func (ch *Channel) FD() int { return ch.ib.FD() }

// Wait waits for the next event and returns the queue that it is of. That queue makes no other event until [CQ.Notify] asks
// for one; poll it until it is empty, ask, and poll again. Each event is returned to one goroutine.
func (ch *Channel) Wait(ctx context.Context) (*CQ, error) { return ch.wait(ctx, nil) }

// Next returns the queue of an event that has arrived, or nil when there is none.
func (ch *Channel) Next() (*CQ, error) {
	for {
		cq, _, err := ch.claim(nil, false)
		if cq != nil || err != nil {
			return cq, err
		}
		select {
		case ch.turn <- struct{}{}:
		default: // another goroutine waits, and takes what there is
			return nil, nil
		}
		some, err := ch.read(ch.fd.try)
		<-ch.turn
		if err != nil || !some {
			return nil, err
		}
	}
}

// wait waits for an event of one queue, or with nil of any.
func (ch *Channel) wait(ctx context.Context, want *CQ) (*CQ, error) {
	for {
		cq, news, err := ch.claim(want, true)
		if cq != nil || err != nil {
			return cq, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
		case <-news:
		case ch.turn <- struct{}{}:
			stop := context.AfterFunc(ctx, func() { ch.change(func() {}) })
			if ch.quiet(ctx, want) {
				_, err = ch.read(ch.fd.read)
			}
			stop()
			<-ch.turn
			if err != nil {
				return nil, err
			}
		}
	}
}

// claim takes an event that was read, or returns what tells of the next, to who is going to wait for that. A queue that failed
// needs no event.
func (ch *Channel) claim(want *CQ, waits bool) (*CQ, <-chan struct{}, error) {
	if want != nil && want.hasFailed() {
		return want, nil, nil
	}
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.cause != nil {
		return nil, nil, ch.refuse("wait for a completion event", ch.cause, "")
	}
	for i, cq := range ch.todo {
		if want == nil || cq == want {
			ch.todo = slices.Delete(ch.todo, i, i+1)
			return cq, nil, nil
		}
	}
	if waits && ch.news == nil {
		ch.news = make(chan struct{})
	}
	return nil, ch.news, nil
}

// quiet tells whether there is nothing for the reader yet. From then on every change, and the end of its context,
// interrupts it.
func (ch *Channel) quiet(ctx context.Context, want *CQ) bool {
	failed := want != nil && want.hasFailed()
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if failed || ch.cause != nil || ctx.Err() != nil || want == nil && len(ch.todo) > 0 || slices.Contains(ch.todo, want) {
		return false
	}
	ch.reading = true
	ch.fd.resume()
	return true
}

// change changes something that waiters look at, and wakes them, the one that reads included.
func (ch *Channel) change(f func()) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	f()
	if ch.news != nil {
		close(ch.news)
		ch.news = nil
	}
	if ch.reading {
		ch.reading = false
		ch.fd.interrupt()
	}
}

// read takes one event from the descriptor and has it be claimed by whoever wants it. It tells whether there was one. One
// of a queue that was closed since is nobody's.
func (ch *Channel) read(from func([]byte) (int, error)) (bool, error) {
	const op = "read a completion event"
	n, err := from(ch.event[:])
	if err != nil && ch.ended() {
		err = nil // claim says why
	}
	if err != nil || n == 0 {
		return false, ch.fail(op, err)
	}
	token, err := uverbs.DecodeCompEvent(ch.event[:n])
	if err != nil {
		return false, ch.fail(op, err)
	}
	if cq, ok := ch.ctx.byToken(token).(*CQ); ok && cq.enter(op) == nil {
		cq.ib.AckEvents(1)
		cq.leave()
		ch.change(func() {
			if !slices.Contains(ch.todo, cq) {
				ch.todo = append(ch.todo, cq)
			}
		})
	}
	return true, nil
}

func (ch *Channel) ended() bool {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.cause != nil
}

// drop forgets the events of a queue that was closed.
func (ch *Channel) drop(cq *CQ) {
	ch.change(func() { ch.todo = slices.DeleteFunc(ch.todo, func(o *CQ) bool { return o == cq }) })
}

// finish has all who wait, and who will, get this error.
func (ch *Channel) finish(cause error) {
	ch.change(func() {
		if ch.cause == nil {
			ch.cause = cause
		}
	})
}

// Close closes the channel; who waits in it gets [ErrClosed]. While a completion queue uses it, it is [ErrBusy]. A second
// Close does nothing.
func (ch *Channel) Close() error {
	return ch.shut(func() error {
		ch.finish(ErrClosed)
		ch.fd.Close()
		return ch.ib.Close()
	})
}
