package rdma

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/liveness"
	"github.com/ibrun/ibrun/fabric/rdma/internal/messages"
	"github.com/ibrun/ibrun/fabric/rdma/internal/posting"
	"github.com/ibrun/ibrun/verbs"
)

// A device that is removed or has failed for good loses its queue pairs with everything that was in flight. If it is not the
// first rail, connections are made again without it: messages travel over the first rail, and transfers are repeated over
// the other rails. If it is the first, the domain cannot continue. Completions of what arrived before the loss are still polled.
//
// If the user of the domain has another transport (see Takeover.Await), peers that were connected
// are handed over to it, see handover.go. Peers that were never connected wait for it: they are
// listed as peers that do not answer, with the lost device as the reason. Without an agreement on
// another transport they are lost after the heartbeat. If there is no other transport, all peers
// are lost. That is not an error of Poll, because messages to the process itself go on.
//
// A device that works, but whose completion queues cannot be polled any more, or that refuses to close queue pairs, counts as
// lost too.

// railLost handles the error of a rail. If it is not the first, connections are made again without it, and the result is nil.
func (c *completions) railLost(r *rail, err error) error {
	if r.Index == 0 {
		return fmt.Errorf("fabric/rdma: %w", err)
	}
	if !r.room.Lost {
		r.room.Lost = true
		c.live = slices.DeleteFunc(slices.Clone(c.live), func(o *rail) bool { return o == r })
		c.sleeper.Ignore(r.Index)
		r.leaveOut(nil, err)
		r.reportLeftOut(c.cm.report, 0, 0)
		c.eps.leaveRail(r, fmt.Errorf("%w: the device is lost: %v", errLane, err))
	}
	return nil
}

// loseDevice ends all endpoints because the device is lost. err says which.
func (d *domain) loseDevice(err error) {
	if d.takeover.lost != nil {
		return
	}
	d.takeover.lost, d.stopped = fmt.Errorf("the device is lost: %w", err), true
	if !errors.Is(err, verbs.ErrDeviceLost) {
		d.takeover.lost = fmt.Errorf("device %s cannot be used any more: %w", d.rails[0].Dev.Name(), err)
	}
	for _, r := range d.rails {
		d.sleeper.Ignore(r.Index)
	}
	d.eps.stopPosting(&d.poster)
	unstopped := d.eps.stopReceiving()
	d.completions.drainLost()
	for _, i := range unstopped {
		_ = d.rails[i].Close() // the kernel frees what the device did not
	}
	down := d.cm.closing.Abandon() // peers that have closed
	d.controlDue = nil
	d.cm.Socket.DropReceived()
	for e := range d.eps.known() {
		if e.peer == d.self || e.addr.Rails == nil { // without an address the peer is reached by another domain
			continue
		}
		waiting := e.retry.timer.IsSet()
		d.cm.connecting.Remove(&e.retry.timer)
		e.conn.Reset()
		e.teardown, e.disconnect = nil, disconnectDone
		if down[e] == nil && e.ended.Load() == nil && (e.leaving != nil || d.takeover.mayTakeOver(e)) {
			d.takeover.leaveLost(e, fmt.Errorf("fabric/rdma: peer %d: %w", e.peer, d.takeover.lost))
			continue
		}
		if d.takeover.awaited && !e.attempt.done && e.ended.Load() == nil {
			d.poster.Keep(&e.lanes, func(*posting.QueuePair) bool { return false })
			d.recvs.Detach(&e.msgs)
			if waiting {
				d.takeover.awaitOther(e)
			}
			continue
		}
		why := cmp.Or(down[e], fmt.Errorf("fabric/rdma: peer %d: %w: %w", e.peer, fabric.ErrPeerDown, d.takeover.lost))
		if e.ended.CompareAndSwap(nil, &endReason{why}) {
			d.events.Put(messages.Event{Kind: fabric.PeerDown, Peer: &e.msgs, Err: why})
		}
		e.endTransfers(why)
	}
}

// pollStopped is Poll once the domain was closed or its device is lost.
func (d *domain) pollStopped(evs []fabric.Event) (int, error) {
	if d.closed {
		return 0, errDomainClosed.err
	}
	if d.sleeper.Armed() {
		_ = d.disarm() // consumes what woke the caller; an error leaves a descriptor that is readable
	}
	d.events.Release(&d.recvs)
	d.events.Begin(nil)
	return d.pollLost(evs, d.takeover.lost)
}

// armStopped is Arm once the domain was closed or its device is lost.
func (d *domain) armStopped() (int, bool, error) {
	if d.closed {
		return -1, false, errDomainClosed.err
	}
	d.events.Release(&d.recvs)
	d.events.Begin(nil)
	d.sleeper.Begin()
	return d.armLost(d.takeover.lost)
}

// pollLost ends a Poll that has failed: the device is lost. It delivers the events that say so, and those of before.
func (d *domain) pollLost(evs []fabric.Event, err error) (int, error) {
	d.loseDevice(err)
	d.progressLost()
	d.events.Resume(evs)
	d.events.Deliver(&d.recvs, int32(d.self))
	return d.events.End(), nil
}

// armLost ends an Arm that has failed: the device is lost. Nothing but a call of this process wakes the caller from now on.
func (d *domain) armLost(err error) (int, bool, error) {
	d.loseDevice(err)
	d.progressLost()
	now, at := d.clock.Elapsed(), liveness.Never
	if d.cm.connecting.Len() > 0 {
		at = now + lostInterval
	}
	return d.sleeper.FD(), d.events.Pending(), d.sleeper.Until(now, at)
}

// lostInterval is how often a caller that sleeps is woken while peers wait for another transport.
const lostInterval = 50 * time.Millisecond

// awaitOther lists a peer that cannot be connected to because the device is lost.
func (t *Takeover) awaitOther(e *endpoint) {
	now := t.cm.clock.Elapsed()
	e.attempt.count(now)
	e.retry.err, e.retry.pending = t.lost, true
	t.cm.addConnecting(e, now)
}

// progressLost does what is left to do without a device: it lists the peers that wait for another transport, and ends those that
// have waited for too long.
func (d *domain) progressLost() {
	if d.cm.anyRequested.Load() {
		for _, e := range d.cm.takeRequested() {
			if e.leaving != nil {
				e.endTransfers(errAbandoned.err)
			} else if e.ended.Load() == nil && !e.retry.timer.IsSet() && !e.attempt.held {
				d.takeover.awaitOther(e)
			}
		}
	}
	if d.cm.connecting.Len() == 0 {
		return
	}
	now := d.clock.Elapsed()
	list := make([]*endpoint, d.cm.connecting.Len())
	for i := range list {
		list[i] = d.cm.connecting.Of(i)
	}
	for _, e := range list {
		switch {
		case !e.isConnecting():
			d.cm.connecting.Remove(&e.retry.timer)
		case now-e.attempt.since >= d.settings.Heartbeat && !e.attempt.confirmed && !e.attempt.held:
			d.cm.connecting.Remove(&e.retry.timer)
			e.peerDown(fmt.Errorf("fabric/rdma: peer %d: %w: %w", e.peer, fabric.ErrPeerDown, d.takeover.lost))
		}
	}
}
