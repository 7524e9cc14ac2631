// Package clocksync makes clocks of several machines tell one time, as far as messages can.
//
// A [Source] is a clock as a machine has it: nanoseconds since some moment of its own, which never go back. Sources with the
// same ID are one clock: one kernel's monotonic clock in one time namespace. Processes that read one need nothing else. For
// the others one source is the reference, and the common time is what it shows.
//
// Somebody whose source is another asks the reference for the time, and notes when question and answer passed by: a [Sample].
// Asked a few times in a row, the fastest is the one that waited least on its way. A [Fit] takes such bursts, keeps those
// that were fast, and of the others what contradicts those; it lays a [Line] through them and tells how well each foretold the
// next. A [Clock] follows the line:
//
//	var c clock.Clock
//	c.Init(source)
//	var fit clock.Fit
//	fit.Add(burst) // of samples, every second or so
//	c.Start(fit.Bend(now))
//	fit.Clock = &c
//	t := c.Now() // common time, by any goroutine
//	...
//	c.Steer(fit.Bend(soon)) // after more bursts
//
// A clock that is ahead is slowed down until the line has caught up, and one that is behind is sped up; it is never set.
// A [Bend] is such a correction. One process plans it for a moment to come and hands it to all that read the same source,
// so that these agree to the nanosecond.
//
// # What is known, and what is not
//
// The residual that [Fit.Residual] states is by how much the clock was off when the next burst came: drift and read error.
// What no exchange of messages can see is a path that takes longer one way than the other. It shifts all samples alike, by
// half the difference, and so by less than half of the fastest round trip.
package clocksync
