package rdma

import (
	"cmp"
	"fmt"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/fabric/rdma/internal/datagrams"
)

// checkSilence probes a peer once in each keepalive interval. It declares the peer down, and returns true, if it has answered no
// probe for too long.
func (d *domain) checkSilence(e *endpoint, now time.Duration) bool {
	s := &e.retry.silence
	if now < s.At {
		return false
	}
	if s.Waiting && !e.attempt.confirmed {
		s.Intervals++
		d.renewAfterSilence(e, int(s.Intervals))
	}
	if int(s.Intervals) >= d.liveness.MaxMissed-1 { // the first interval had no probe
		s.At = now + d.liveness.Interval
		d.giveUp(e, d.silentError(e))
		return true
	}
	s.Probe++
	err := d.sendCM(e, cm.Probe, cm.QP{})
	if s.Waiting = err != datagrams.ErrNoSlot; !s.Waiting {
		s.Probe--
		s.At = now // tries again in the next tick
		return false
	}
	if e.addr.IsWaiting() { // nothing was tried
		s.Waiting = false
	}
	s.At = now + d.liveness.Interval
	return false
}

// silentError returns why a peer that has answered no probes is down.
func (d *domain) silentError(e *endpoint) error {
	err := fmt.Errorf("fabric/rdma: connect to peer %d: %w: its process has answered nothing for %v", e.peer, fabric.ErrPeerDown,
		d.settings.Heartbeat)
	if why := cmp.Or(e.retry.Failure(), e.retry.err, d.cm.Socket.Refusal); why != nil {
		err = fmt.Errorf("%w: %w", err, why)
	}
	return d.explainSilence(err)
}
