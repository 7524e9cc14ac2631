package uverbs

import (
	"os"

	"golang.org/x/sys/unix"
)

// memlock says that the limit on locked memory is why a range could not be registered. It is nil if that is not so, or if
// /proc does not tell.
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
	facts := lockFacts{limit.Cur, string(status), string(uidMap), uint64(os.Getpagesize())}
	return facts.explain(start, length)
}
