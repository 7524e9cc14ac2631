package coordinator

import (
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestUserRequests: signals that follow the first one within a moment are the same request, and later ones are the second. In a
// Slurm job SIGTERM never is, since Slurm sends it several times.
func TestUserRequests(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		first, further syscall.Signal
		after          time.Duration
		second         bool
		slurm          bool
	}{
		{unix.SIGINT, unix.SIGINT, sameRequest, false, false},
		{unix.SIGINT, unix.SIGINT, sameRequest + 1, true, false},
		{unix.SIGTERM, unix.SIGINT, sameRequest + 1, true, false},
		{unix.SIGTERM, unix.SIGTERM, 0, false, false},
		{unix.SIGTERM, unix.SIGTERM, sameProgramRequest, false, false},
		{unix.SIGTERM, unix.SIGTERM, sameProgramRequest + 1, true, false},
		{unix.SIGINT, unix.SIGTERM, sameProgramRequest, false, false},
		{unix.SIGINT, unix.SIGTERM, sameProgramRequest + 1, true, false},
		{unix.SIGTERM, unix.SIGHUP, sameProgramRequest, false, false},
		{unix.SIGHUP, unix.SIGHUP, sameProgramRequest, false, false},
		{unix.SIGHUP, unix.SIGHUP, sameProgramRequest + 1, true, false},
		{unix.SIGTERM, unix.SIGTERM, time.Hour, false, true},
		{unix.SIGINT, unix.SIGTERM, time.Hour, false, true},
		{unix.SIGTERM, unix.SIGINT, sameRequest + 1, true, true},
		{unix.SIGTERM, unix.SIGHUP, sameProgramRequest + 1, true, true},
	} {
		u := userRequests{slurm: c.slurm}
		now := time.Now()
		if first, second := u.add(c.first, now); !first || second {
			t.Errorf("%v: first %v, second %v", c.first, first, second)
		}
		for range 2 { // the first one counts, however many follow
			if first, second := u.add(c.further, now.Add(c.after)); first || second != c.second {
				t.Errorf("%v %v after %v, Slurm %v: first %v, second %v", c.further, c.after, c.first, c.slurm, first, second)
			}
		}
	}
}
