//go:build unix

package admission

import "golang.org/x/sys/unix"

// Limit returns most, or a quarter of the descriptors that this process may open.
func Limit(most int) int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return most
	}
	return max(2, int(min(uint64(most), limit.Cur/4)))
}
