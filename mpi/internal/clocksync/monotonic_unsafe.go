// This file imports unsafe for go:linkname, to read the monotonic clock as the kernel counts it. Package time reads the
// same clock, without a system call, but tells only differences, and two processes that compare times need the number
// itself. The Go runtime promises to keep this name.

package clocksync

import _ "unsafe"

// monotonic is CLOCK_MONOTONIC on Linux, in nanoseconds.
//
//go:linkname monotonic runtime.nanotime
func monotonic() int64
