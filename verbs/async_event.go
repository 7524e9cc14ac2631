package verbs

import (
	"context"
	"fmt"
	"sync"

	"github.com/ibrun/ibrun/verbs/internal/uverbs"
)

// Event is an asynchronous event of an object or a port. One of QP, CQ, SRQ and Port is set, and none of them for events of the
// whole device.
type Event struct {
	Type EventType
	QP   *QP
	CQ   *CQ
	SRQ  *SRQ
	Port int

	// Missed is the number of events that were dropped before this one, because more than a thousand were queued.
	Missed int
}

// String returns the kernel's name of the event and the object or port.
func (e Event) String() string {
	switch {
	case e.QP != nil:
		return fmt.Sprintf("%v of %v", e.Type, &e.QP.base)
	case e.CQ != nil:
		return fmt.Sprintf("%v of the %v", e.Type, &e.CQ.base)
	case e.SRQ != nil:
		return fmt.Sprintf("%v of the %v", e.Type, &e.SRQ.base)
	case e.Port != 0:
		return fmt.Sprintf("%v of port %d", e.Type, e.Port)
	}
	return e.Type.String()
}

const opReadEvent = "read an asynchronous event"

// maxEvents is the number of events that are queued for NextEvent.
const maxEvents = 1024

// asyncEvents reads a context's asynchronous events from the kernel, in a goroutine that lives as long as the context: an
// overrun and the loss of the device must be handled even if the program never calls NextEvent.
type asyncEvents struct {
	fd   *eventFD
	done chan struct{} // closed when the goroutine ends

	mu      sync.Mutex
	queue   []Event
	missed  int
	changed chan struct{} // closed, and replaced, when an event arrives; closed when the queue ends
	ended   bool
}

// start reads once before it starts the goroutine. So a device whose events cannot be read is not opened: otherwise it would be
// lost at some moment while objects are created.
func (e *asyncEvents) start(c *Context) error {
	var err error
	if e.fd, err = newEventFD(c.ib.AsyncFD(), c.ib); err != nil {
		return c.fail("open the device", err)
	}
	e.done, e.changed = make(chan struct{}), make(chan struct{})
	var b [uverbs.AsyncEventBytes]byte
	n, err := e.fd.tryRead(b[:])
	if err == nil && n > 0 {
		err = e.handle(c, b[:n])
	}
	if err != nil {
		e.fd.Close()
		return c.fail(opReadEvent, err)
	}
	go func() {
		defer close(e.done)
		e.run(c)
	}()
	return nil
}

// stop ends the goroutine and wakes the goroutines in NextEvent.
func (e *asyncEvents) stop() {
	e.fd.Close()
	<-e.done
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = true
	close(e.changed)
}

func (e *asyncEvents) run(c *Context) {
	for {
		var b [uverbs.AsyncEventBytes]byte
		n, err := e.fd.read(b[:])
		if c.isClosing() && err != nil {
			return
		}
		if err == nil {
			err = e.handle(c, b[:n])
		}
		if err != nil {
			// Every read on a device that was removed fails with EIO.
			if c.lost.Load() == nil {
				c.deviceLost(fmt.Errorf(opReadEvent+": %w", err))
				e.put(Event{Type: EventDeviceFatal})
			}
			return
		}
	}
}

// handle acknowledges and queues an event that was read.
func (e *asyncEvents) handle(c *Context, b []byte) error {
	d, err := uverbs.DecodeAsyncEvent(b)
	if err != nil {
		return err
	}
	c.ib.AckAsync(d.EventType, d.Element)
	if ev, ok := c.handleEvent(EventType(d.EventType), d.Element); ok {
		e.put(ev)
	}
	return nil
}

// handleEvent finds the object of an event, and handles an overrun and the loss of the device. It returns false for events of
// objects that were closed meanwhile.
func (c *Context) handleEvent(t EventType, element uint64) (Event, bool) {
	ev := Event{Type: t}
	switch t {
	case EventDeviceFatal:
		c.deviceLost(nil)
		return ev, true
	case EventPortActive, EventPortError, EventLIDChange, EventPKeyChange, EventSMChange, EventReregister, EventGIDChange:
		ev.Port = int(element)
		c.ports.empty()
		return ev, true
	}
	switch o := c.objectOf(element).(type) {
	case *QP:
		ev.QP = o
	case *CQ:
		ev.CQ = o
		if t == EventCQError {
			o.setFailed(ErrOverrun)
		}
	case *SRQ:
		ev.SRQ = o
	default:
		return ev, false
	}
	return ev, true
}

// put queues an event. If the queue is full, the oldest event is dropped.
func (e *asyncEvents) put(ev Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.queue) == maxEvents {
		e.missed++
		e.queue = append(e.queue[:0], e.queue[1:]...)
	}
	ev.Missed = 0
	e.queue = append(e.queue, ev)
	close(e.changed)
	e.changed = make(chan struct{})
}

// NextEvent blocks until the next asynchronous event. Each event is returned to one goroutine. The errors are those of the
// context, and [ErrClosed] if the device is closed.
func (c *Context) NextEvent(ctx context.Context) (Event, error) {
	for {
		ev, changed, err := c.events.next(c)
		if err != nil || changed == nil {
			return ev, err
		}
		select {
		case <-ctx.Done():
			return Event{}, ctx.Err()
		case <-changed:
		}
	}
}

// next returns an event. If there is none, it returns the channel that is closed when the next event arrives.
func (e *asyncEvents) next(c *Context) (Event, <-chan struct{}, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case len(e.queue) > 0:
		ev := e.queue[0]
		e.queue = e.queue[1:]
		ev.Missed, e.missed = e.missed, 0
		return ev, nil, nil
	case e.ended:
		return Event{}, nil, c.refuse("wait for an event", ErrClosed, "")
	}
	return Event{}, e.changed, nil
}
