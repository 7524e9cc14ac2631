// Package clocksync synchronizes the clocks of several machines, as well as messages can.
//
// A [Source] is a clock of a machine: nanoseconds since some moment, which never decrease. Sources with the same ID
// are one clock, namely one kernel's monotonic clock in one time namespace. Processes that read the same source need
// no synchronization. For the others, one source is the reference, and common time is what it shows.
//
// A process with another source asks the reference for the time, and records when it sent the question and when it
// received the answer: a [Sample]. Of a burst of samples, the fastest was delayed least. A [Fit] takes bursts. Every sample
// bounds the offset of the clock: the answer was given after the question and before its arrival. A [Line] lies between the
// bounds of the recent bursts, and is fitted to the fast samples. Under load, when no sample is fast, the bounds alone determine
// it: the widest strip between them is nearly horizontal if the clocks run alike, and inclined if they do not. A [Clock] follows
// the line:
//
//	var c clocksync.Clock
//	c.Init(source)
//	var fit clocksync.Fit
//	fit.Add(burst) // of samples, every second or so
//	c.Start(fit.Correction(now))
//	fit.Clock = &c
//	t := c.Now() // common time, in any goroutine
//	...
//	c.Steer(fit.Correction(soon)) // after more bursts
//
// A clock that is ahead is slowed down until the line has caught up, and one that is behind is sped up; it never
// jumps. A [Correction] describes such a change. One process computes it for a time in the near future and sends it
// to all that read the same source, so their clocks agree to the nanosecond.
//
// # What is measured, and what is not
//
// A [Bound] says how far the clock may be off: how far it was off when recent bursts were taken, or how far the lines that the
// samples leave possible differ from it, if that is more. It grows with time, by the uncertainty of the rate. It assumes that
// the rates of the clocks differ by less than 250 millionths until samples contradict that, and that they change slowly.
//
// Messages cannot detect that a path takes longer in one direction than in the other. This shifts all samples alike, by half of
// the difference, and so by less than half of the fastest round trip. A bound does not contain it.
package clocksync
