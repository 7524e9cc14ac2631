package rdma

import (
	"cmp"
	"fmt"
	"time"

	"github.com/ibrun/ibrun/fabric"
)

// silence counts for how long a peer gives no sign of life while a connection to it is being made. The peer's process may compute
// and not answer connection requests for any time. It is down if its responder does not answer probes.
type silence struct {
	at        time.Duration // when the current keepalive interval ends; the peer is probed then
	probe     uint32        // number of the last probe
	answered  uint32        // number of the last probe that was answered
	intervals int32         // keepalive intervals in a row at whose end a probe was unanswered
	waiting   bool          // the last probe was not answered: it was sent, or there was no route, or the device has refused it
}

// answer is called when the answer to a probe has arrived. Only the answer to a probe that is later than the last answered one
// counts, so an answer that is repeated proves nothing.
func (s *silence) answer(probe uint32) {
	if int32(probe-s.answered) > 0 && int32(s.probe-probe) >= 0 {
		s.answered, s.intervals, s.waiting = probe, 0, false
	}
}

// end is called when the connection is established.
func (s *silence) end() { s.intervals, s.waiting = 0, false }

// checkSilence probes a peer once in each keepalive interval. It declares the peer down, and returns true, if it has answered no
// probe for too long.
func (d *domain) checkSilence(e *endpoint, now time.Duration) bool {
	s := &e.retry.silence
	if now < s.at {
		return false
	}
	if s.waiting && !e.attempt.confirmed {
		s.intervals++
		d.renewAfterSilence(e, int(s.intervals))
	}
	if int(s.intervals) >= d.liveness.maxMissed-1 { // the first interval had no probe
		s.at = now + d.liveness.interval
		d.giveUp(e, d.silentError(e))
		return true
	}
	s.probe++
	err := d.sendCM(e, cmProbe, qpInfo{})
	if s.waiting = err != errNoSendSlot; !s.waiting {
		s.probe--
		s.at = now // tries again in the next tick
		return false
	}
	if e.resolution != nil && !e.resolution.begun { // nothing was tried
		s.waiting = false
	}
	s.at = now + d.liveness.interval
	return false
}

// silentError returns why a peer that has answered no probes is down.
func (d *domain) silentError(e *endpoint) error {
	err := fmt.Errorf("fabric/rdma: connect to peer %d: %w: its process has answered nothing for %v", e.peer, fabric.ErrPeerDown,
		d.settings.Heartbeat)
	if why := cmp.Or(e.retry.failure(), e.retry.err, d.cm.refusal); why != nil {
		err = fmt.Errorf("%w: %w", err, why)
	}
	return d.explainSilence(err)
}
