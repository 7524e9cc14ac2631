package launch

import (
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A rank that was killed before the ranks are told to end died by itself, also if its agent hears of that only afterwards; one
// that lives then did not.
func TestEndAll(t *testing.T) {
	d, err := newDeaths(3) // one of them was never started
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(d.epoll)
	for i := range 2 {
		m := &d.ranks[i]
		c := exec.Command("sleep", "3600")
		c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, PidFD: &m.pidfd}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = c.Process.Kill(), c.Wait() })
		m.pid = c.Process.Pid
	}
	if err := unix.PidfdSendSignal(d.ranks[0].pidfd, unix.SIGKILL, nil, 0); err != nil {
		t.Fatal(err)
	}
	if !d.ranks[0].dead(60_000) {
		t.Fatal("a process does not die of SIGKILL")
	}
	d.endAll()
	for i, want := range []bool{false, true, false} {
		if d.ranks[i].ended.Load() != want {
			t.Errorf("rank %d: ended is %v", i, !want)
		}
	}
}
