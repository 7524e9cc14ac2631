package agent

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// limits are those of processes (setrlimit) that may explain how a rank has ended. Ranks inherit them from the agent.
type limits struct{ cpu, space unix.Rlimit }

// readLimits returns the limits of this process. One that cannot be read is infinite.
func readLimits() (l limits) {
	none := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	if unix.Getrlimit(unix.RLIMIT_CPU, &l.cpu) != nil {
		l.cpu = none
	}
	if unix.Getrlimit(unix.RLIMIT_AS, &l.space) != nil {
		l.space = none
	}
	return l
}

// explain returns the limit that may explain how a rank has ended, or an empty string. used is the processor time of the rank.
func (l limits) explain(ws unix.WaitStatus, used time.Duration) string {
	if !ws.Signaled() {
		return ""
	}
	switch ws.Signal() {
	case unix.SIGXCPU:
		if l.cpu.Cur == unix.RLIM_INFINITY {
			return "it has reached its limit of processor time"
		}
		return fmt.Sprintf("the limit of processor time is %d s (ulimit -t)", l.cpu.Cur)
	case unix.SIGKILL:
		// The kernel samples the time that it compares with the limit, which may be more than what was used.
		if most := uint64((used + used/3) / time.Second); l.cpu.Max <= most {
			return fmt.Sprintf("it has used %v of processor time; the limit is %d s (ulimit -t)", used.Round(time.Millisecond), l.cpu.Max)
		}
	case unix.SIGABRT, unix.SIGSEGV, unix.SIGBUS:
		if l.space.Cur != unix.RLIM_INFINITY {
			return fmt.Sprintf("if memory was short, the reason is the limit of its address space, %d MiB (ulimit -v)", l.space.Cur>>20)
		}
	}
	return ""
}

// explainFork adds the limit of processes to the error of a process that could not be started because of it.
func explainFork(err error) error {
	var n unix.Rlimit
	if !errors.Is(err, unix.EAGAIN) || unix.Getrlimit(unix.RLIMIT_NPROC, &n) != nil || n.Cur == unix.RLIM_INFINITY {
		return err
	}
	return fmt.Errorf("%w: the processes and threads of a user are limited to %d (ulimit -u)", err, n.Cur)
}
