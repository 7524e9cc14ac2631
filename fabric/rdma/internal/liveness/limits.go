package liveness

import "time"

const (
	maxKeepaliveInterval = 500 * time.Millisecond
	// With a short heartbeat the intervals are shorter, so that a few lost datagrams do no harm.
	minMissed = 10
	// idleShare: an idle peer is probed after this share of the heartbeat at the earliest.
	idleShare = 4
)

// Limits says how long a peer may give no sign of life. Time is counted in keepalive intervals
// rather than read from a clock, so that a time in which this process did not poll counts as one
// interval: the peer's answers have not been seen then.
type Limits struct {
	Interval  time.Duration
	MaxMissed int // intervals without an answer after which a peer is down
	// MaxQueued is MaxMissed for a keepalive WRITE that was posted behind many requests, or behind
	// a long one. Packet loss delays these, and the network may lose long packets, so the
	// connection is made again. Probes find in the rest of the time whether the peer still exists.
	MaxQueued int
	MinIdle   int // intervals without any message after which a peer is probed at the earliest
}

// NewLimits returns the limits for the time in which a peer must have answered.
func NewLimits(heartbeat time.Duration) Limits {
	interval := max(min(maxKeepaliveInterval, heartbeat/minMissed), time.Millisecond)
	missed := max(int(heartbeat/interval), minMissed)
	return Limits{Interval: interval, MaxMissed: missed, MaxQueued: missed * 2 / 3, MinIdle: missed / idleShare}
}

// Duration returns how long a number of intervals takes.
func (l Limits) Duration(intervals int) time.Duration { return time.Duration(intervals) * l.Interval }

// MaxIdle returns after how many idle intervals a peer is probed: from a quarter to a half of the
// heartbeat. It differs from peer to peer, so that peers that became idle at the same time are not
// probed at the same time. A lost peer is noticed within that time and the heartbeat, which
// together are less than two times the heartbeat.
func (l Limits) MaxIdle(peer int) int { return l.MinIdle + peer%(l.MinIdle+1) }
