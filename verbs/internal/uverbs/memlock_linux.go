package uverbs

import (
	"os"

	"golang.org/x/sys/unix"
)

// memlock returns a MemlockError if the limit on locked memory is the reason why a range could not be registered. It returns nil
// if it is not, or if /proc cannot be read.
func memlock(start, length uint64) *MemlockError {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit) != nil {
		return nil
	}
	status, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		return nil
	}
	uidMap, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return nil
	}
	limits := lockLimits{limit.Cur, string(status), string(uidMap), uint64(os.Getpagesize())}
	return limits.explain(start, length)
}
