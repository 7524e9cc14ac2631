// This file imports unsafe for go:linkname, to read the value of the kernel's monotonic clock. Package time reads the same
// clock, without a system call, but only returns differences. Two processes that compare times need the value itself. The Go
// runtime guarantees to keep this name.

package clocksync

import _ "unsafe"

// monotonic returns CLOCK_MONOTONIC on Linux, in nanoseconds.
//
//go:linkname monotonic runtime.nanotime
func monotonic() int64
