package proctree

import (
	"os"
	"syscall"
	"testing"
)

// TestReaperGone: who has waited for the last child finds that none is left.
func TestReaperGone(t *testing.T) {
	for range 50 {
		pid, err := syscall.ForkExec("/bin/sh", []string{"sh", "-c", "exit 3"}, &syscall.ProcAttr{Env: os.Environ()})
		if err != nil {
			t.Fatal(err)
		}
		r := NewReaper(pid)
		if ws, _ := r.Wait(pid); ws.ExitStatus() != 3 {
			t.Errorf("exit status %d, want 3", ws.ExitStatus())
		}
		select {
		case <-r.Gone:
		default:
			t.Fatal("Gone is open after the exit of the only child")
		}
	}
}
