package rdma

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/verbs"
)

// A device that is removed or has failed for good loses its queue pairs with everything that was in flight. If it is not the
// first rail, connections are made again without it: messages travel over the first rail, and transfers are repeated over
// the other rails. If it is the first, the domain cannot continue. Completions of what arrived before the loss are still polled.
//
// If the user of the domain has another transport (see Await), peers that were connected are handed over to it, see handover.go.
// Peers that were never connected wait for it: they are listed as peers that do not answer, with the lost device as the reason.
// Without an agreement on another transport they are lost after the heartbeat. If there is no other transport, all peers are
// lost. That is no error of Poll, because messages to the process itself go on.

// railLost handles the error of a rail. If its device is lost, and it is not the first rail, connections are made again without
// it, and the result is nil.
func (d *domain) railLost(r *rail, err error) error {
	if r.index == 0 || !errors.Is(err, verbs.ErrDeviceLost) {
		return fmt.Errorf("fabric/rdma: %w", err)
	}
	if !r.lost {
		r.lost = true
		d.polled = slices.DeleteFunc(slices.Clone(d.polled), func(o *rail) bool { return o == r })
		d.waker.ignoreRail(r)
		d.leaveRail(r, fmt.Errorf("%w: the device is lost: %v", errLane, err))
	}
	return nil
}

// loseDevice ends all endpoints because the device is lost. err says which.
func (d *domain) loseDevice(err error) {
	if d.lost != nil {
		return
	}
	d.lost = fmt.Errorf("%w: the device is lost: %w", fabric.ErrPeerDown, err)
	for _, r := range d.rails {
		d.waker.ignoreRail(r)
	}
	d.drainLost()
	down := map[*endpoint]error{} // peers that have closed
	for _, e := range d.eps {
		if e != nil && e.teardown != nil && e.teardown.peerDown != nil {
			down[e] = e.teardown.peerDown
		}
	}
	for _, f := range d.cm.failures {
		if f.peerDown {
			down[f.ep] = f.err
		}
	}
	d.cm.failures, d.cm.closing, d.cm.received, d.controlDue = nil, teardowns{}, nil, nil
	for _, e := range d.eps {
		if e == nil || e.peer == d.self || e.addr.rails == nil { // without an address the peer is reached by another domain
			continue
		}
		waiting := e.retry.position > 0
		d.removeConnecting(e)
		e.conn.reset()
		e.teardown, e.disconnect = nil, disconnectDone
		d.mu.Lock()
		e.canPost = false
		d.mu.Unlock()
		why := cmp.Or(down[e], fmt.Errorf("fabric/rdma: peer %d: %w", e.peer, d.lost))
		if down[e] == nil && e.ended.Load() == nil && (e.leaving != nil || d.mayLeave(e)) {
			d.leaveLost(e, why)
			continue
		}
		if d.awaited && !e.attempt.done && e.ended.Load() == nil {
			d.dropLanes(e, func(*queuePair) bool { return false })
			if waiting {
				d.awaitOther(e)
			}
			continue
		}
		if e.ended.CompareAndSwap(nil, &endReason{why}) {
			d.events.put(queuedEvent{kind: fabric.PeerDown, ep: e, err: why})
		}
		d.endTransfers(e, why)
	}
}

// pollLost ends a Poll that has failed. If the device is lost, it delivers the events that say so, and those of before.
func (d *domain) pollLost(evs []fabric.Event, err error) (int, error) {
	if !errors.Is(err, verbs.ErrDeviceLost) {
		return 0, err
	}
	d.loseDevice(err)
	d.progressLost()
	d.events.out = evs
	d.deliverQueued()
	d.events.out = nil
	return d.events.filled, nil
}

// armLost ends an Arm that has failed. If the device is lost, nothing but a call of this process wakes the caller.
func (d *domain) armLost(err error) (int, bool, error) {
	if !errors.Is(err, verbs.ErrDeviceLost) {
		return -1, false, err
	}
	d.loseDevice(err)
	d.progressLost()
	now, at := d.clock.elapsed(), never
	if len(d.cm.connecting) > 0 {
		at = now + lostInterval
	}
	return d.waker.epfd, d.events.len() > 0 || d.loopback.pending(), d.waker.setTimer(now, at)
}

// lostInterval is how often a caller that sleeps is woken while peers wait for another transport.
const lostInterval = 50 * time.Millisecond

// Await makes peers that were never connected wait for another transport when the device is lost.
func (d *domain) Await() { d.awaited = true }

// awaitOther lists a peer that cannot be connected to because the device is lost.
func (d *domain) awaitOther(e *endpoint) {
	now := d.clock.elapsed()
	e.countRequest(now)
	e.retry.err = d.lost
	d.addConnecting(e, now)
}

// progressLost does what is left to do without a device: it lists the peers that wait for another transport, and ends those that
// have waited for too long.
func (d *domain) progressLost() {
	if d.cm.anyRequested.Load() {
		for _, e := range d.takeRequested() {
			if e.leaving != nil {
				d.endTransfers(e, errAbandoned.err)
			} else if e.ended.Load() == nil && e.retry.position == 0 && !e.attempt.held {
				d.awaitOther(e)
			}
		}
	}
	if len(d.cm.connecting) == 0 {
		return
	}
	now := d.clock.elapsed()
	for _, e := range slices.Clone(d.cm.connecting) {
		switch {
		case !e.isConnecting():
			d.removeConnecting(e)
		case now-e.attempt.since >= d.settings.Heartbeat && !e.attempt.confirmed && !e.attempt.held:
			d.removeConnecting(e)
			d.peerDown(e, fmt.Errorf("fabric/rdma: peer %d: %w", e.peer, d.lost))
		}
	}
}
