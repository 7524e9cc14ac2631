package rdma

import (
	"context"
	"fmt"
	"sync"

	"github.com/ibrun/ibrun/verbs"
)

// deviceEvents are the asynchronous events of the devices that Poll has not handled yet. A goroutine for each rail reads them,
// because the kernel reports them by a descriptor of their own. They are rare.
type deviceEvents struct {
	pending chan railEvent // while it is full, package verbs keeps further events, a bounded number
	stop    context.CancelFunc
	readers sync.WaitGroup
}

// maxDeviceEvents is how many events wait for Poll.
const maxDeviceEvents = 64

// railEvent is an event of the device of a rail.
type railEvent struct {
	rail *rail
	verbs.Event
}

// readDeviceEvents starts the goroutines. Until stopDeviceEvents, an event wakes the caller of Poll.
func (d *domain) readDeviceEvents() {
	ctx, stop := context.WithCancel(context.Background())
	d.deviceEvents.stop, d.deviceEvents.pending = stop, make(chan railEvent, maxDeviceEvents)
	for _, r := range d.rails {
		d.deviceEvents.readers.Go(func() {
			for {
				ev, err := r.Dev.NextEvent(ctx)
				if err != nil {
					return // the domain is being closed
				}
				select {
				case d.deviceEvents.pending <- railEvent{r, ev}:
				case <-ctx.Done():
					return
				}
				_ = d.waker.wake() // if it fails, the next Poll finds the event
			}
		})
	}
}

// stopDeviceEvents ends the goroutines and waits for them.
func (d *domain) stopDeviceEvents() {
	if d.deviceEvents.stop != nil {
		d.deviceEvents.stop()
		d.deviceEvents.readers.Wait()
	}
}

// handleDeviceEvents handles the events that have arrived.
func (d *domain) handleDeviceEvents() {
	addresses := false
	for range len(d.deviceEvents.pending) {
		ev := <-d.deviceEvents.pending // only this goroutine receives
		switch {
		case ev.QP != nil:
			d.handleQPEvent(ev)
		case ev.Port == ev.rail.Port:
			d.handlePortEvent(ev.rail, ev.Type)
		}
		addresses = addresses || ev.mayChangeAddress() || ev.Missed > 0
	}
	if addresses {
		d.refreshAddress()
		d.checkHandles()
	}
}

// handlePortEvent handles an event of the port of a rail. Without its link, connections break when the device has sent packets
// again for long enough; they are made again once the link is up. A peer that answers nothing for Settings.Heartbeat is lost.
// Connections do without a rail beyond the first from the event on, until its link is up again.
func (d *domain) handlePortEvent(r *rail, t verbs.EventType) {
	switch t {
	case verbs.EventPortError:
		r.portDown = true
		if r.Index > 0 {
			r.leaveOut(nil, fmt.Errorf("the link of port %d is down", r.Port))
			d.leaveRail(r, fmt.Errorf("%w: the link of device %s is down", errLane, r.Dev.Name()))
		}
	case verbs.EventPortActive:
		r.portDown = false
		if r.Index > 0 {
			d.returnRail(r)
		}
	}
}

// explainSilence adds to the error of a peer that answers nothing that the port of this process is down.
func (d *domain) explainSilence(err error) error {
	if r := d.rails[0]; r.portDown {
		return fmt.Errorf("%w: port %d of device %s is down here", err, r.Port, r.Dev.Name())
	}
	return err
}

// mayChangeAddress reports whether the port of the rail may have another address or other partitions.
func (ev *railEvent) mayChangeAddress() bool {
	switch ev.Type {
	case verbs.EventLIDChange, verbs.EventGIDChange, verbs.EventPKeyChange, verbs.EventSMChange, verbs.EventReregister,
		verbs.EventPortActive:
		return ev.Port == ev.rail.Port
	}
	return false
}

// handleQPEvent handles an event of a queue pair. Except for EventLastWQE during a teardown, all that this package may get mean
// that the queue pair has failed.
func (d *domain) handleQPEvent(ev railEvent) {
	q := d.byQPN.find(ev.rail, ev.QP.Num())
	if q == nil || q.qp != ev.QP {
		return // it was closed meanwhile
	}
	e := q.ep
	switch ev.Type {
	case verbs.EventLastWQE:
		if q.lastWQE = true; e.teardown != nil {
			d.cm.closing.lastCompletion(e)
		}
	case verbs.EventQPFatal, verbs.EventQPRequestError, verbs.EventQPAccessError:
	default:
		return
	}
	if e.teardown == nil {
		d.declareBroken(e, fmt.Errorf("%v: %w", ev, verbs.ErrState))
	}
}
