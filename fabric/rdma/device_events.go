package rdma

import (
	"fmt"

	"github.com/ibrun/ibrun/verbs"
)

// handleDeviceEvents handles the events that have arrived.
func (d *domain) handleDeviceEvents() {
	addresses := false
	for range d.deviceEvents.Len() {
		ev := d.deviceEvents.Next()
		r := d.rails[ev.Rail.Index]
		switch {
		case ev.QP != nil:
			d.handleQPEvent(r, ev.Event)
		case ev.IsOfPort():
			d.handlePortEvent(r, ev.Type)
		}
		addresses = addresses || ev.MayChangeAddress()
	}
	if addresses {
		d.cm.refreshAddress()
		d.eps.checkHandles()
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
			d.eps.leaveRail(r, fmt.Errorf("%w: the link of device %s is down", errLane, r.Dev.Name()))
		}
	case verbs.EventPortActive:
		r.portDown = false
		if r.Index > 0 {
			d.eps.returnRail(r)
		}
	}
}

// explainSilence adds to the error of a peer that answers nothing that the port of this process is down.
func (r *rail) explainSilence(err error) error {
	if r.portDown {
		return fmt.Errorf("%w: port %d of device %s is down here", err, r.Port, r.Dev.Name())
	}
	return err
}

// handleQPEvent handles an event of a queue pair. Except for EventLastWQE during a teardown, all that this package may get mean
// that the queue pair has failed.
func (d *domain) handleQPEvent(r *rail, ev verbs.Event) {
	q := d.poster.Find(&r.room, ev.QP.Num())
	if q == nil || q.QP != ev.QP {
		return // it was closed meanwhile
	}
	e := d.eps[q.Peer]
	switch ev.Type {
	case verbs.EventLastWQE:
		if q.LastWQE = true; e.teardown != nil {
			d.cm.closing.LastCompletion(e.teardown)
		}
	case verbs.EventQPFatal, verbs.EventQPRequestError, verbs.EventQPAccessError:
	default:
		return
	}
	if e.teardown == nil {
		e.declareBroken(fmt.Errorf("%v: %w", ev, verbs.ErrState))
	}
}
