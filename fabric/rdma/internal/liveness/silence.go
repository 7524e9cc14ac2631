package liveness

import "time"

// Silence counts for how long a peer gives no sign of life while a connection to it is being made.
// The peer's process may compute and not answer connection requests for any time. It is down if its
// responder does not answer probes.
type Silence struct {
	At        time.Duration // when the current keepalive interval ends; the peer is probed then
	Probe     uint32        // number of the last probe
	Answered  uint32        // number of the last probe that was answered
	Intervals int32         // keepalive intervals in a row at whose end a probe was unanswered
	// Waiting: the last probe was not answered. It was sent, or there was no route, or the device
	// has refused it.
	Waiting bool
}

// Answer is called when the answer to a probe has arrived. Only the answer to a probe that is later
// than the last answered one counts, so an answer that is repeated proves nothing.
func (s *Silence) Answer(probe uint32) {
	if int32(probe-s.Answered) > 0 && int32(s.Probe-probe) >= 0 {
		s.Answered, s.Intervals, s.Waiting = probe, 0, false
	}
}

// End is called when the connection is established.
func (s *Silence) End() { s.Intervals, s.Waiting = 0, false }
