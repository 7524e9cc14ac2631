package verbs

import (
	"context"
	"fmt"
	"sync"

	"github.com/ibrun/ibrun/verbs/internal/uverbs"
)

// Event is something that happened to an object or a port. One of QP, CQ, SRQ and Port is set, none for events of the whole
// device.
type Event struct {
	Type EventType
	QP   *QP
	CQ   *CQ
	SRQ  *SRQ
	Port int

	// Missed is how many events before this one were thrown away, because more than a thousand waited.
	Missed int
}

// String is the kernel's name of the event and what it is of.
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

// maxEvents is how many events wait for a program that does not ask for them.
const maxEvents = 1024

// events takes a context's asynchronous events from the kernel, in a goroutine that lives as long as the context: an
// overrun and the loss of the device must be known also to programs that ask for no event.
type events struct {
	fd   *descriptor
	done chan struct{}

	mu     sync.Mutex
	queue  []Event
	missed int
	news   chan struct{} // closed, and made anew, when an event comes or the queue ends
	ended  bool
}

func (e *events) start(c *Context) error {
	var err error
	if e.fd, err = newDescriptor(c.ib.AsyncFD(), c.ib); err != nil {
		return c.fail("open the device", err)
	}
	e.done, e.news = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(e.done)
		e.run(c)
	}()
	return nil
}

// stop ends the goroutine and wakes who waits.
func (e *events) stop() {
	e.fd.Close()
	<-e.done
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = true
	close(e.news)
}

func (e *events) run(c *Context) {
	for {
		var b [uverbs.AsyncEventBytes]byte
		n, err := e.fd.read(b[:])
		if c.isDying() && err != nil {
			return
		}
		d, bad := uverbs.DecodeAsyncEvent(b[:n])
		if err != nil || bad != nil {
			// A device that was removed answers every read with EIO.
			if !c.lost.Load() {
				c.deviceLost()
				e.put(Event{Type: EventDeviceFatal})
			}
			return
		}
		c.ib.AckAsync(d.EventType, d.Element)
		if ev, ok := c.event(EventType(d.EventType), d.Element); ok {
			e.put(ev)
		}
	}
}

// event names the object, and does what does not wait for the program. Events of objects that were closed since are dropped.
func (c *Context) event(t EventType, element uint64) (Event, bool) {
	ev := Event{Type: t}
	switch t {
	case EventDeviceFatal:
		c.deviceLost()
		return ev, true
	case EventPortActive, EventPortError, EventLIDChange, EventPKeyChange, EventSMChange, EventReregister, EventGIDChange:
		ev.Port = int(element)
		return ev, true
	}
	switch o := c.byToken(element).(type) {
	case *QP:
		ev.QP = o
	case *CQ:
		ev.CQ = o
		if t == EventCQError {
			o.poison(ErrOverrun)
		}
	case *SRQ:
		ev.SRQ = o
	default:
		return ev, false
	}
	return ev, true
}

func (e *events) put(ev Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.queue) == maxEvents {
		e.missed++
		e.queue = append(e.queue[:0], e.queue[1:]...)
	}
	ev.Missed = 0
	e.queue = append(e.queue, ev)
	close(e.news)
	e.news = make(chan struct{})
}

// NextEvent waits for the next asynchronous event. Each is returned to one goroutine. The errors are those of the context, and
// [ErrClosed] when the device is closed.
func (c *Context) NextEvent(ctx context.Context) (Event, error) {
	for {
		ev, news, err := c.events.next(c)
		if err != nil || news == nil {
			return ev, err
		}
		select {
		case <-ctx.Done():
			return Event{}, ctx.Err()
		case <-news:
		}
	}
}

// next returns an event, or what tells of the next.
func (e *events) next(c *Context) (Event, <-chan struct{}, error) {
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
	return Event{}, e.news, nil
}
