package waittest

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Readable reports whether a file descriptor is readable, now or within a time.
func Readable(t testing.TB, fd int, within time.Duration) bool {
	t.Helper()
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(within.Milliseconds()))
		if err == nil {
			return n == 1
		}
		if !errors.Is(err, unix.EINTR) {
			t.Fatal(err)
		}
	}
}
