package liveness

import "time"

// Silence counts for how long a peer gives no sign of life while a connection to it is being made.
// The peer's process may compute and not answer connection requests for any time. It is down if its
// responder does not answer probes.
type Silence struct {
	At       time.Duration // when the current keepalive interval ends; the peer is probed then
	Probe    uint32        // number of the last probe
	Answered uint32        // number of the last probe that was answered
	// Intervals: keepalive intervals in a row at whose end a probe was unanswered. State.Missed
	// counts the same unit, so Intervals continues from it when a connection breaks.
	Intervals int32
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

// Due reports whether a keepalive interval has ended.
func (s *Silence) Due(now time.Duration) bool { return now >= s.At }

// Miss records that the last probe was not answered in the interval that has ended, and reports
// whether it was not. If another transport confirms that the process exists, that does not count.
func (s *Silence) Miss(confirmed bool) bool {
	if !s.Waiting || confirmed {
		return false
	}
	s.Intervals++
	return true
}

// TooLong reports whether the peer has answered nothing for too long. The first interval had no
// probe.
func (s *Silence) TooLong(l *Limits) bool { return int(s.Intervals) >= l.MaxMissed-1 }

// Next begins the next interval.
func (s *Silence) Next(now time.Duration, l *Limits) { s.At = now + l.Interval }

// Probing numbers the next probe, which is sent then.
func (s *Silence) Probing() { s.Probe++ }

// Postponed records that the probe could not be sent for want of room. The next tick tries again.
func (s *Silence) Postponed(now time.Duration) {
	s.Probe--
	s.Waiting, s.At = false, now
}

// Probed records that the probe was sent, or that there was no route, or that the device has
// refused it. tried is not set if the address of the peer is still to be resolved: then nothing was
// tried.
func (s *Silence) Probed(now time.Duration, l *Limits, tried bool) {
	s.Waiting = tried
	s.Next(now, l)
}

// End is called when the connection is established.
func (s *Silence) End() { s.Intervals, s.Waiting = 0, false }
