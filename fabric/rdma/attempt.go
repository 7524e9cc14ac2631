package rdma

import (
	"cmp"
	"fmt"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/liveness"
)

// A peer that does not answer connection requests may be slow: its program computes, or it is stopped. Or the devices do not
// reach each other, because of VLANs, partitions, firewalls or routes. A domain cannot distinguish the two. Its user can, if it
// reaches the peer in another way (package auto asks over TCP). The methods of Takeover in this file are for that.

// attempt is what an endpoint records until it is connected for the first time.
type attempt struct {
	since     time.Duration // when the first REQ was sent, or could not be sent
	requests  int32         // how many there were; they cannot be sent if there is no route, or if the device refuses the connection
	heard     bool          // a datagram of the peer has arrived, other than the answer to a probe
	confirmed bool          // see Takeover.ConfirmAlive
	held      bool          // see Takeover.Hold
	done      bool          // the peer was connected
}

// maxOverdue is how long a connection request may be unanswered before Attempts reports it.
const maxOverdue = 250 * time.Millisecond

// Attempt describes a peer that this process tries to connect to for the first time.
type Attempt struct {
	// Requests is the number of connection requests that were sent so far.
	Requests int
	// Elapsed is the time since the first one.
	Elapsed time.Duration
	// Heard says that a datagram about connections has arrived from the peer, and no attempt has failed.
	Heard bool
	// Err is not nil if the last request could not be sent, because there is no route, or if attempts fail: because the device of
	// the peer refuses if Rejected is set.
	Err      error
	Rejected bool
}

// Connecting reports whether this process tries to connect to a peer.
func (t *Takeover) Connecting() bool { return t.cm.connecting.Len() > 0 }

// Attempts calls f for every peer that this process tries to connect to for the first time, if the
// peer has not answered for a quarter of a second, or an eighth of the heartbeat.
//
// Callers call it often, and many peers may be computing and not answer. So it reads the clock once, and allocates nothing.
func (t *Takeover) Attempts(f func(peer int, a Attempt)) {
	overdue, now := min(maxOverdue, t.cm.settings.Heartbeat/8), t.cm.clock.Elapsed()
	for i := range t.cm.connecting.Len() {
		e := t.cm.connecting.Of(i)
		a := &e.attempt
		elapsed := now - a.since
		if a.requests == 0 || a.done || e.ended.Load() != nil || elapsed < overdue {
			continue
		}
		failure := e.retry.Failure()
		f(e.peer, Attempt{int(a.requests), elapsed, a.heard && failure == nil && t.lost == nil, cmp.Or(failure, e.retry.err),
			failure != nil && e.retry.Rejected})
	}
}

// Refusal returns why this process cannot connect to a peer, or cannot answer its requests, as far as it is known here; nil if it
// is not. The reasons that the peer gives are not among them.
func (t *Takeover) Refusal(peer int) error {
	e := t.cm.endpointOf(peer)
	failure := e.retry.Failure()
	if e.retry.Rejected {
		failure = nil
	}
	return cmp.Or(t.lost, failure, e.retry.err, t.cm.Socket.Refusal)
}

// PathTo describes the device and the addresses by which a peer is connected to.
func (t *Takeover) PathTo(peer int) string {
	ours, theirs := t.cm.rails[0].Address, t.cm.endpointOf(peer).addr.Rails[0]
	return fmt.Sprintf("device %s, from %v to %v", t.cm.settings.Devices[0], &ours, &theirs)
}

// count records that a REQ was sent, or could not be.
func (a *attempt) count(now time.Duration) {
	if a.requests == 0 {
		a.since = now
	}
	a.requests++
}

// ConfirmAlive records that the process of a peer exists, until it is called with false or the peer is connected. Meanwhile the
// peer is not lost by its silence.
func (t *Takeover) ConfirmAlive(peer int, alive bool) {
	e := t.cm.endpointOf(peer)
	e.attempt.confirmed = alive && !e.attempt.done
}

// Retry sends connection requests to a peer as often as at first.
func (t *Takeover) Retry(peer int) {
	e := t.cm.endpointOf(peer)
	if t.lost != nil {
		e.attempt.requests++ // it would fail like the others
		return
	}
	e.retry.reqAt, e.retry.reqInterval = t.cm.clock.Elapsed(), liveness.MinREQInterval
	if e.retry.timer.IsSet() {
		t.cm.scheduleConnecting(e)
	}
}

// Hold keeps a peer from being connected, or undoes that. It returns false, and does nothing, if it was connected already.
// While a peer is not connected, this domain has neither taken messages for it nor received messages from it.
func (t *Takeover) Hold(peer int, on bool) bool {
	e := t.cm.endpointOf(peer)
	if e.attempt.done {
		return false
	}
	e.attempt.held = on
	return true
}

// Abandon closes the endpoint of a peer that is held, for good. No event reports it, here or at the peer, if the peer's domain
// does the same.
func (t *Takeover) Abandon(peer int) {
	e := t.cm.endpointOf(peer)
	if !e.ended.CompareAndSwap(nil, &errAbandoned) {
		return
	}
	e.msgs.In.Discarding, e.attempt.held = true, true
	t.ended(e)
	if e.leaving != nil && e.leaving.left { // before that, the device may access their memory
		e.endTransfers(errAbandoned.err) // those that began since then
	}
	if e.conn.State == cm.StateIdle && len(e.lanes.Queues) == 0 {
		e.release()
		return
	}
	e.declareBroken(errAbandoned.err)
}

// sendError returns the error of a Send after the endpoint has ended. If another transport reaches the peer, the user may not
// have got the event that says so: other events of the same Poll may be before it. Until then there is no room.
func (why *endReason) sendError() error {
	if why == &errAbandoned {
		return fabric.ErrAgain
	}
	return why.err
}

var errAbandoned = endReason{fmt.Errorf("fabric/rdma: %w: the peer is reached by another transport", fabric.ErrNotSupported)}
