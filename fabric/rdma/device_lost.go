package rdma

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/verbs"
)

// A device that is removed or has failed for good loses its queue pairs with everything that was in flight. If it is not the
// first rail, connections are made again without it: messages travel over the first rail, and transfers are repeated over
// the other rails. If it is the first, nothing says what the peers have received, so their connections cannot be continued over
// something else: all peers are lost. That is no error of Poll, because other transports of the process go on, as do messages
// to the process itself.

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
	d.cm.failures, d.cm.closing, d.cm.received, d.controlDue = nil, nil, nil, nil
	for _, e := range d.eps {
		if e == nil || e.peer == d.self || e.addr.rails == nil { // without an address the peer is reached by another domain
			continue
		}
		d.removeConnecting(e)
		e.conn.reset()
		e.teardown, e.disconnect = nil, disconnectDone
		d.mu.Lock()
		e.canPost = false
		d.mu.Unlock()
		why := fmt.Errorf("fabric/rdma: peer %d: %w", e.peer, d.lost)
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
	return d.waker.epfd, d.events.len() > 0 || d.loopback.pending(), d.waker.setTimer(0, never)
}
