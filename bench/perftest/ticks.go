package perftest

import "time"

var origin = time.Now()

// ticksGo is ticks where there is no assembly: nanoseconds.
func ticksGo() uint64 { return uint64(time.Since(origin)) }
