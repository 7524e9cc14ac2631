package processor

import "golang.org/x/sys/unix"

// Yield lets another process run.
func Yield() { unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
