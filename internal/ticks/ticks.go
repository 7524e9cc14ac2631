// Package ticks reads the processor's cycle counter, which takes about ten nanoseconds. Reading the system's clock is a system
// call if the clock source is a device, as in some virtual machines, and then takes longer than the intervals to be measured.
//
// To convert ticks to time, measure both over an interval and use their ratio. The rate of the counter is not known in advance
// and is not always constant: see [Steady].
package ticks

import "time"

var origin = time.Now()

// nowGo is Now for processors without a counter. It returns nanoseconds.
func nowGo() uint64 { return uint64(time.Since(origin)) }
