package liveness

import (
	"errors"
	"math"
	"time"

	"github.com/ibrun/ibrun/verbs"
)

// A series lasts too long after MaxFailures, or after MaxSeries if there were MinFailures,
// whichever is first: calls may take long, and a process may poll rarely.
const (
	MinFailures = 4
	MaxFailures = 16
	MaxSeries   = 2 * time.Second
)

// CountUp returns n+1, or n if that is too large.
func CountUp(n int16) int16 { return n + min(1, math.MaxInt16-n) }

// LastsTooLong reports whether something has failed too often, or for too long.
func LastsTooLong(failures int16, since time.Duration) bool {
	return failures >= MaxFailures || failures >= MinFailures && since >= MaxSeries
}

// Series is a number of attempts in a row that have failed, to connect to a peer. It also records
// what must be carried out to end the series. The zero series has no failures.
type Series struct {
	Why        error         // why the last attempt has failed; valid while Failed is not 0
	Since      time.Duration // when the first one has failed, by Clock.Running; valid likewise
	Lost       uint32        // bytes of the shortest packet that was lost; 0: none is known
	Unfinished Unfinished
	Failed     int16 // how many; 0: there is no series
	Rejected   bool  // the last one was refused by the peer
}

// Unfinished is what was not carried out when the last connection broke, and has not been since.
type Unfinished struct {
	Seq     uint32 // of the oldest message that was not acknowledged; valid if Message is set
	Message bool   // there was such a message
	// Transfer: there was a transfer that had not ended. It is cleared when the oldest one gets
	// further than over any connection before. Over a connection with one lane any piece is enough,
	// since it is never transferred again.
	Transfer bool
	Receive  bool // the receive of a message has failed, so the peer has to send it again
}

// Fail records that an attempt has failed, and returns how long the series lasts. ran is the time
// by Clock.Running. stuck is for how long the request of the attempt was posted before it has
// failed: the series begins with the request of its first attempt.
func (s *Series) Fail(why error, ran, stuck time.Duration) time.Duration {
	if s.Failed == 0 {
		s.Since = ran - stuck
	}
	s.Failed, s.Why = CountUp(s.Failed), why
	return ran - s.Since
}

// End ends the series.
func (s *Series) End() { s.Failed, s.Lost, s.Unfinished = 0, 0, Unfinished{} }

// Failure returns why the last attempt has failed, nil if there is no series.
func (s *Series) Failure() error {
	if s.Failed == 0 {
		return nil
	}
	return s.Why
}

// IsLossy reports whether the last attempt has failed because packets were lost.
func (s *Series) IsLossy() bool { return errors.Is(s.Why, verbs.StatusRetryExceeded) }

// LeastFailures returns how many failures a series must have before the peer is given up after a
// heartbeat. Two are enough if packets were lost: a device may send them again for long before the
// connection breaks.
func (s *Series) LeastFailures() int16 {
	if s.IsLossy() {
		return 2
	}
	return MaxFailures
}

// CountPacket records that a packet of so many bytes was lost.
func (s *Series) CountPacket(bytes uint32) {
	if bytes != 0 && (s.Lost == 0 || bytes < s.Lost) {
		s.Lost = bytes
	}
}

// LosesLarge reports whether only packets of more than this many bytes were lost, for long enough
// to send smaller ones: after several failures in a row, or once the series lasts for a third of
// the heartbeat, since devices that retransmit for long let a connection break only then.
func (s *Series) LosesLarge(bytes uint32, lasts, heartbeat time.Duration) bool {
	soon := s.Failed < MaxLargeLost && lasts < heartbeat/MTUShare
	return s.IsLossy() && s.Lost > bytes && !soon
}

// Packets become smaller after MaxLargeLost failures in a row, or once the series lasts for a
// heartbeat divided by MTUShare.
const (
	MaxLargeLost = 3
	MTUShare     = 3
)

// MessageAcknowledged records that the peer has acknowledged a message.
func (s *Series) MessageAcknowledged(seq uint32) {
	if u := &s.Unfinished; u.Message {
		u.Message = int32(seq-u.Seq) < 0
	}
}

// TransferProgressed records that the oldest transfer got further than over any connection before.
func (s *Series) TransferProgressed() { s.Unfinished.Transfer = false }

// RequestAcknowledged records that a request of so many bytes was carried out. It ends the series
// if nothing is unfinished.
func (s *Series) RequestAcknowledged(bytes uint32) {
	if bytes >= s.Lost {
		s.Lost = 0
	}
	if u := &s.Unfinished; s.Lost == 0 && !u.Message && !u.Transfer && !u.Receive {
		s.End()
	}
}

// Arrived records that a message of the peer has arrived.
func (s *Series) Arrived() {
	if s.Unfinished.Receive {
		s.Unfinished.Receive = false
	}
}

// KeepaliveAcknowledged records that the peer's device has acknowledged a keepalive, and nothing
// else is in flight. What was sent before has arrived then.
func (s *Series) KeepaliveAcknowledged() {
	if !s.Unfinished.Receive {
		s.End()
	}
}
