// Package liveness decides how long a peer may give no sign of life, how long attempts to connect
// to it may fail, and when the timers of a domain expire. It does no input or output, and knows
// nothing but time and the reasons of failures. What follows from its decisions is up to the
// domain.
//
// # Time
//
// There are two measures of time. [Clock] is the time since a domain was opened, for timers. All
// limits of peers are counted in keepalive intervals in which the domain has polled: a process that
// was stopped has not seen the answers of its peers, and they are not to blame for that.
// [Clock.Running] and the visits of [Ring] measure it.
//
// # Files
//
//	clock.go               reads the system clock rarely, and knows when the next timer expires
//	limits.go              the numbers of intervals that follow from the heartbeat
//	state.go               a connected peer: when it is probed, when its connection ends, when it is down
//	ring.go                spreads the visits to connected peers over an interval
//	timers.go              the timers of peers that are being connected to
//	silence.go             counts the probes that a peer leaves unanswered while it is being connected to
//	connect_intervals.go   the times between requests to connect, and the pauses after attempts that failed
//	series.go              counts attempts that fail, and knows what ends the series
//	refused_call.go        calls that the device refuses, and that are made again
//
// # Locks
//
// There are none. A value belongs to the goroutine that calls Poll of its domain. The exception is
// [Series]: what ends it is recorded by the handling of completions, which holds the lock of the
// domain; that is the same goroutine.
package liveness
