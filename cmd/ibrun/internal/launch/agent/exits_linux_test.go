package agent

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// sleeper starts a process that sleeps and that a test may kill.
func sleeper(t *testing.T) (pid, pidfd int) {
	t.Helper()
	c := exec.Command("sleep", "3600")
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, PidFD: &pidfd}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = c.Process.Kill(), c.Wait() })
	return c.Process.Pid, pidfd
}

// A rank that has closed its connection and continues, because it has finalized or for another reason, begins to exit only when
// it is killed.
func TestExitAfterClose(t *testing.T) {
	for _, finalized := range []bool{true, false} {
		w, err := newExitWatcher(1)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(w.epoll)
		ours, theirs, err := os.Pipe() // its end of file is reported like that of a socket
		if err != nil {
			t.Fatal(err)
		}
		defer ours.Close()
		pid, pidfd := sleeper(t)
		if err := w.add(0, pid, pidfd, ours); err != nil {
			t.Fatal(err)
		}
		if finalized {
			w.finalized(0)
		}
		theirs.Close()
		if err := w.wait(); err != nil { // returns when the end of the connection was noticed
			t.Fatal(err)
		}
		killed := time.Now()
		if err := unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0); err != nil {
			t.Fatal(err)
		}
		if _, when, err := w.next(); err != nil || when.Before(killed) {
			t.Errorf("finalized: %v: its exit was noticed %v before it was killed, %v", finalized, killed.Sub(when), err)
		}
	}
}

// A rank that was killed before the ranks are ordered to end exited for another reason, even if its agent notices only
// afterwards. A rank that is alive then did not.
func TestMarkAlive(t *testing.T) {
	w, err := newExitWatcher(3) // one of them was never started
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(w.epoll)
	for i := range 2 {
		m := &w.ranks[i]
		m.pid, m.pidfd = sleeper(t)
	}
	if err := unix.PidfdSendSignal(w.ranks[0].pidfd, unix.SIGKILL, nil, 0); err != nil {
		t.Fatal(err)
	}
	if !w.ranks[0].hasExited(60_000) {
		t.Fatal("a process does not exit after SIGKILL")
	}
	w.markAlive()
	for i, want := range []bool{false, true, false} {
		if w.ranks[i].aliveAtEnd.Load() != want {
			t.Errorf("rank %d: ended is %v", i, !want)
		}
	}
}
