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
func (e *endpoint) checkSilence(now time.Duration) bool {
	d := e.d
	s := &e.retry.silence
	if !s.Due(now) {
		return false
	}
	if s.Miss(e.attempt.confirmed) {
		d.cm.renewAfterSilence(e, int(s.Intervals))
	}
	if s.TooLong(&d.liveness) {
		s.Next(now, &d.liveness)
		d.takeover.giveUp(e, e.silentError())
		return true
	}
	s.Probing()
	if e.sendCM(cm.Probe, cm.QP{}) == datagrams.ErrNoSlot {
		s.Postponed(now)
		return false
	}
	s.Probed(now, &d.liveness, !e.addr.IsWaiting())
	return false
}

// silentError returns why a peer that has answered no probes is down.
func (e *endpoint) silentError() error {
	d := e.d
	err := fmt.Errorf("fabric/rdma: connect to peer %d: %w: its process has answered nothing for %v", e.peer, fabric.ErrPeerDown,
		d.settings.Heartbeat)
	if why := cmp.Or(e.retry.Failure(), e.retry.err, d.cm.Socket.Refusal); why != nil {
		err = fmt.Errorf("%w: %w", err, why)
	}
	return d.rails[0].explainSilence(err)
}
