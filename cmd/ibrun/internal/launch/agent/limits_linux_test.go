package agent

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestExplainExit: a limit is named if the way in which a rank has ended says that it may be the reason.
func TestExplainExit(t *testing.T) {
	const infinite = unix.RLIM_INFINITY
	signal := func(s unix.Signal) unix.WaitStatus { return unix.WaitStatus(s) }
	none := limits{unix.Rlimit{Cur: infinite, Max: infinite}, unix.Rlimit{Cur: infinite, Max: infinite}}
	two := limits{unix.Rlimit{Cur: 2, Max: 2}, unix.Rlimit{Cur: 1 << 30, Max: infinite}}
	for _, c := range []struct {
		l    limits
		ws   unix.WaitStatus
		used time.Duration
		want string
	}{
		{two, signal(unix.SIGXCPU), 0, "the limit of processor time is 2 s (ulimit -t)"},
		{none, signal(unix.SIGXCPU), 0, "it has reached its limit of processor time"},
		{two, signal(unix.SIGKILL), 1800 * time.Millisecond, "it has used 1.8s of processor time; the limit is 2 s (ulimit -t)"},
		{two, signal(unix.SIGKILL), time.Second, ""},
		{none, signal(unix.SIGKILL), time.Hour, ""},
		{two, signal(unix.SIGABRT), 0,
			"if memory was short, the reason is the limit of its address space, 1024 MiB (ulimit -v)"},
		{none, signal(unix.SIGSEGV), 0, ""},
		{two, signal(unix.SIGTERM), time.Hour, ""},
		{two, 2 << 8, time.Hour, ""}, // exit code 2
	} {
		if got := c.l.explain(c.ws, c.used); got != c.want {
			t.Errorf("%v of %v with %v: %q, want %q", c.ws, c.used, c.l, got, c.want)
		}
	}
}

// TestExplainFork: only the error that a limit of processes may cause names it.
func TestExplainFork(t *testing.T) {
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &old); err != nil {
		t.Fatal(err)
	}
	set := func(n unix.Rlimit) {
		if err := unix.Setrlimit(unix.RLIMIT_NPROC, &n); err != nil {
			t.Fatal(err)
		}
	}
	defer set(old)
	limit := min(old.Max, 1<<20) // which no test reaches
	set(unix.Rlimit{Cur: limit, Max: old.Max})
	for err, want := range map[error]string{
		unix.EAGAIN: fmt.Sprintf("%v: the processes and threads of a user are limited to %d (ulimit -u)", unix.EAGAIN, limit),
		unix.ENOENT: "no such file or directory",
	} {
		if got := explainFork(err); got.Error() != want || !errors.Is(got, err) {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}
