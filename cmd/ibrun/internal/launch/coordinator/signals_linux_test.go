package coordinator

import (
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestUserRequests: signals that follow the first one within a moment are the same request, and later ones are the second.
func TestUserRequests(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		first, further syscall.Signal
		after          time.Duration
		second         bool
	}{
		{unix.SIGTERM, unix.SIGTERM, 0, false},
		{unix.SIGTERM, unix.SIGTERM, sameRequest, false},
		{unix.SIGTERM, unix.SIGTERM, sameRequest + 1, true},
		{unix.SIGINT, unix.SIGTERM, sameRequest, false},
		{unix.SIGINT, unix.SIGTERM, sameRequest + 1, true},
		{unix.SIGTERM, unix.SIGHUP, sameRequest + 1, false},
		{unix.SIGHUP, unix.SIGHUP, sameHangupRequest, false},
		{unix.SIGHUP, unix.SIGHUP, sameHangupRequest + 1, true},
	} {
		var u userRequests
		now := time.Now()
		if first, second := u.add(c.first, now); !first || second {
			t.Errorf("%v: first %v, second %v", c.first, first, second)
		}
		for range 2 { // the first one counts, however many follow
			if first, second := u.add(c.further, now.Add(c.after)); first || second != c.second {
				t.Errorf("%v %v after %v: first %v, second %v", c.further, c.after, c.first, first, second)
			}
		}
	}
}
