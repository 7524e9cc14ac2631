package verbs

import (
	"context"
	"slices"
	"sync"

	"github.com/ibrun/ibrun/verbs/internal/ib"
	"github.com/ibrun/ibrun/verbs/internal/uverbs"
)

// Channel is a completion channel: it reports which completion queues have something to poll. A goroutine that waits in it is
// parked in the Go runtime's poller and blocks no thread. Its methods may be called by any goroutine at any time.
type Channel struct {
	base
	ib ib.Channel
	fd *eventFD

	reader chan struct{}               // holds a token while a goroutine reads fd; the others wait for what it reads
	buf    [uverbs.CompEventBytes]byte // one event. It belongs to the goroutine that holds the token of reader

	mu           sync.Mutex
	changed      chan struct{} // closed when a field below changes; nil while no goroutine waits for that
	readerParked bool          // the goroutine that reads may be parked: a change must interrupt it
	pending      []*CQ         // queues whose event was read and not returned yet
	closedKind   error         // why no event comes any more, or nil
}

// CreateChannel creates a completion channel.
func (c *Context) CreateChannel() (*Channel, error) {
	const op = "create a completion channel"
	ch := &Channel{base: c.newBase(kindChannel), reader: make(chan struct{}, 1)}
	ch.onDeviceLost = func() { ch.endWith(ErrDeviceLost) }
	err := ch.open(op, ch.Close, func() (err error) {
		if ch.ib, err = c.ib.CreateChannel(); err != nil {
			return err
		}
		if ch.fd, err = newEventFD(ch.ib.FD(), ch.ib); err != nil {
			ch.ib.Close()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return ch, nil
}

// FD returns the descriptor of the channel, for programs that wait for many descriptors in one poll(2): it is readable while
// there is an event for [Channel.Next]. It belongs to the channel and must not be read.
func (ch *Channel) FD() int { return ch.ib.FD() }

// Wait blocks until the next event and returns the queue that it belongs to. That queue makes no other event until [CQ.Notify]
// requests one: poll the queue until it is empty, call Notify, and poll again. Each event is returned to one goroutine.
func (ch *Channel) Wait(ctx context.Context) (*CQ, error) { return ch.wait(ctx, nil) }

// Next returns the queue of an event that has arrived, or nil if there is none.
func (ch *Channel) Next() (*CQ, error) {
	for {
		cq, _, err := ch.takeEvent(nil, false)
		if cq != nil || err != nil {
			return cq, err
		}
		select {
		case ch.reader <- struct{}{}:
		default: // another goroutine waits, and takes the event
			return nil, nil
		}
		found, err := ch.readEvent(ch.fd.tryRead)
		<-ch.reader
		if err != nil || !found {
			return nil, err
		}
	}
}

// wait blocks until an event of one queue, or of any queue if want is nil.
func (ch *Channel) wait(ctx context.Context, want *CQ) (*CQ, error) {
	for {
		cq, changed, err := ch.takeEvent(want, true)
		if cq != nil || err != nil {
			return cq, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case ch.reader <- struct{}{}:
			stop := context.AfterFunc(ctx, func() { ch.update(func() {}) })
			if ch.prepareRead(ctx, want) {
				_, err = ch.readEvent(ch.fd.read)
			}
			stop()
			<-ch.reader
			if err != nil {
				return nil, err
			}
		}
	}
}

// takeEvent takes an event that was read. If there is none it returns a nil queue and, for a caller that is going to wait, the
// channel that the next change closes. A queue that has failed is returned without an event.
func (ch *Channel) takeEvent(want *CQ, waits bool) (*CQ, <-chan struct{}, error) {
	if want != nil && want.hasFailed() {
		return want, nil, nil
	}
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.closedKind != nil {
		return nil, nil, ch.refuse("wait for a completion event", ch.closedKind, "")
	}
	for i, cq := range ch.pending {
		if want == nil || cq == want {
			ch.pending = slices.Delete(ch.pending, i, i+1)
			return cq, nil, nil
		}
	}
	if waits && ch.changed == nil {
		ch.changed = make(chan struct{})
	}
	return nil, ch.changed, nil
}

// prepareRead reports whether the reader has to wait for an event. If so, every change, and the end of its context, interrupts
// it from then on.
func (ch *Channel) prepareRead(ctx context.Context, want *CQ) bool {
	failed := want != nil && want.hasFailed()
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if failed || ch.closedKind != nil || ctx.Err() != nil || want == nil && len(ch.pending) > 0 ||
		slices.Contains(ch.pending, want) {
		return false
	}
	ch.readerParked = true
	ch.fd.resume()
	return true
}

// update calls f, which changes what waiting goroutines check, and wakes them, including the one that reads.
func (ch *Channel) update(f func()) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	f()
	if ch.changed != nil {
		close(ch.changed)
		ch.changed = nil
	}
	if ch.readerParked {
		ch.readerParked = false
		ch.fd.interrupt()
	}
}

// readEvent reads one event from the descriptor and adds its queue to pending. It reports whether there was an event. An event of
// a queue that was closed meanwhile is dropped.
func (ch *Channel) readEvent(read func([]byte) (int, error)) (bool, error) {
	const op = "read a completion event"
	n, err := read(ch.buf[:])
	if err != nil && ch.hasEnded() {
		err = nil // takeEvent returns the reason
	}
	if err != nil || n == 0 {
		return false, ch.fail(op, err)
	}
	token, err := uverbs.DecodeCompEvent(ch.buf[:n])
	if err != nil {
		return false, ch.fail(op, err)
	}
	if cq, ok := ch.ctx.objectOf(token).(*CQ); ok && cq.tryEnter() {
		cq.ib.AckEvents(1)
		cq.leave()
		ch.update(func() {
			if !slices.Contains(ch.pending, cq) {
				ch.pending = append(ch.pending, cq)
			}
		})
	}
	return true, nil
}

func (ch *Channel) hasEnded() bool {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.closedKind != nil
}

// removeEvents drops the events of a queue that was closed.
func (ch *Channel) removeEvents(cq *CQ) {
	ch.update(func() { ch.pending = slices.DeleteFunc(ch.pending, func(o *CQ) bool { return o == cq }) })
}

// endWith makes all calls that wait, now and later, return this error.
func (ch *Channel) endWith(kind error) {
	ch.update(func() {
		if ch.closedKind == nil {
			ch.closedKind = kind
		}
	})
}

// Close closes the channel. Goroutines that wait in it get [ErrClosed]. While a completion queue uses the channel, Close returns
// [ErrBusy]. A second Close does nothing.
func (ch *Channel) Close() error {
	return ch.shutdown(func() error {
		ch.endWith(ErrClosed)
		ch.fd.Close()
		return ch.ib.Close()
	})
}
