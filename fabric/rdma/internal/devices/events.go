package devices

import (
	"context"
	"sync"

	"github.com/ibrun/ibrun/verbs"
)

// Events are the asynchronous events of the devices of rails that Next has not returned yet. A
// goroutine for each rail reads them, because the kernel reports them by a descriptor of their own.
// They are rare.
type Events struct {
	pending chan Event // while it is full, package verbs keeps further events, a bounded number
	stop    context.CancelFunc
	readers sync.WaitGroup
}

// maxEvents is how many events wait for Next.
const maxEvents = 64

// Event is an event of the device of a rail.
type Event struct {
	Rail *Rail
	verbs.Event
}

// Start starts the goroutines. From now on, until Stop, wake is called by one of them when there is
// an event.
func (q *Events) Start(rails Rails, wake func()) {
	ctx, stop := context.WithCancel(context.Background())
	q.stop, q.pending = stop, make(chan Event, maxEvents)
	for _, r := range rails {
		q.readers.Go(func() {
			for {
				ev, err := r.Dev.NextEvent(ctx)
				if err != nil {
					return // Stop was called
				}
				select {
				case q.pending <- Event{r, ev}:
				case <-ctx.Done():
					return
				}
				wake()
			}
		})
	}
}

// Stop ends the goroutines and waits for them. It does nothing before Start.
func (q *Events) Stop() {
	if q.stop != nil {
		q.stop()
		q.readers.Wait()
	}
}

// Len returns how many events there are.
func (q *Events) Len() int { return len(q.pending) }

// Next removes and returns the oldest event. There must be one.
func (q *Events) Next() Event { return <-q.pending } // only one goroutine calls it

// IsOfPort reports whether the event is one of the port of the rail.
func (ev *Event) IsOfPort() bool { return ev.QP == nil && ev.Port == ev.Rail.Port }

// MayChangeAddress reports whether the port of the rail may have another address or other
// partitions, also because events were missed.
func (ev *Event) MayChangeAddress() bool {
	switch ev.Type {
	case verbs.EventLIDChange, verbs.EventGIDChange, verbs.EventPKeyChange, verbs.EventSMChange, verbs.EventReregister,
		verbs.EventPortActive:
		if ev.Port == ev.Rail.Port {
			return true
		}
	}
	return ev.Missed > 0
}
