//go:build unix

package fabrictest

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// waitReadable waits until a descriptor is readable, at most for limit. It reports whether it is.
func waitReadable(fd int, limit time.Duration) (bool, error) {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(limit.Milliseconds()))
	if errors.Is(err, unix.EINTR) {
		return false, nil
	}
	return n == 1, os.NewSyscallError("poll", err)
}
