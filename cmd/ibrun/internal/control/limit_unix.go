//go:build unix

package control

import "golang.org/x/sys/unix"

// pendingLimit returns how many connections may be in their handshake: maxPending, or a quarter of the descriptors that this
// process may open.
func pendingLimit() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return maxPending
	}
	return max(2, int(min(maxPending, uint64(limit.Cur)/4)))
}
