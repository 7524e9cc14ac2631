package console

import (
	"fmt"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/proctree"
	"github.com/ibrun/ibrun/internal/ptytest"
	"github.com/ibrun/ibrun/internal/waittest"
)

// A process that was stopped in a read of the terminal does not read it until it is continued: after SIGCONT of a job, the ranks
// are continued later than ibrun.
func TestStoppedReader(t *testing.T) {
	_, terminal := ptytest.Open(t)
	defer terminal.Close()
	var file unix.Stat_t
	if err := unix.Fstat(int(terminal.Fd()), &file); err != nil {
		t.Fatal(err)
	}
	device := file.Rdev
	cmd := exec.Command("cat")
	cmd.Stdin = terminal
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	pid := cmd.Process.Pid
	signal := func(sig syscall.Signal) {
		t.Helper()
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
	}
	waittest.Until(t, "the process reads the terminal", func() bool { return reads(pid, device) })
	signal(syscall.SIGSTOP)
	waittest.UntilNil(t, "the process is stopped", func() error {
		p, err := proctree.ReadProcess(pid)
		if err == nil && p.State != 'T' {
			err = fmt.Errorf("its state is %c", p.State)
		}
		return err
	})
	if reads(pid, device) {
		t.Error("a stopped process counts as one that reads the terminal")
	}
	signal(syscall.SIGCONT)
	waittest.Until(t, "the continued process reads the terminal", func() bool { return reads(pid, device) })
}
