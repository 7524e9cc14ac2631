// Package ticks reads the processor's cycle counter. That takes some ten nanoseconds, where the system's clock is a system call
// if its source is a device, as it is in some virtual machines, and then takes longer than what is to be measured.
//
// Whoever wants times takes the ratio of ticks and time over an interval. How fast the counter runs is not known beforehand,
// and it need not be constant: see [Steady].
package ticks

import "time"

var origin = time.Now()

// nowGo is Now where there is no counter: nanoseconds.
func nowGo() uint64 { return uint64(time.Since(origin)) }
