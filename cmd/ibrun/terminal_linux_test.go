package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// openTerminal opens a pseudo-terminal: the side of the user, and that of the programs.
func openTerminal(t *testing.T) (user, programs *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { user.Close() })
	if err := unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	programs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { programs.Close() })
	return user, programs
}

// startOnTerminal starts ibrun as the leader of a session with that terminal.
func startOnTerminal(t *testing.T, terminal *os.File, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("ibrun", args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	terminal.Close()
	return cmd
}

// waitFor waits for the exit of a command, and returns its exit code.
func waitFor(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	hung := time.AfterFunc(waitLimit, func() { cmd.Process.Kill() })
	err := cmd.Wait()
	if !hung.Stop() {
		t.Fatalf("ibrun does not end: %v", err)
	}
	return cmd.ProcessState.ExitCode()
}

// TestStoppedTerminal: Ctrl-C ends a job whose terminal was stopped by Ctrl-S.
func TestStoppedTerminal(t *testing.T) {
	t.Parallel()
	user, terminal := openTerminal(t)
	cmd := startOnTerminal(t, terminal, "-n", "2", "yes")
	buf := make([]byte, 1<<10)
	if _, err := io.ReadFull(user, buf); err != nil {
		t.Fatal(err)
	}
	if _, err := user.WriteString("\x13"); err != nil { // Ctrl-S
		t.Fatal(err)
	}
	// The signal must not restart the terminal, as Ctrl-C typed there would.
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := waitFor(t, cmd); code != 130 {
		t.Errorf("exit code %d, want 130", code)
	}
}

// TestClosedTerminal: if the terminal is closed, ranks get SIGHUP and have the whole grace, although they can no longer print and
// the kernel sends the signal more than once.
func TestClosedTerminal(t *testing.T) {
	t.Parallel()
	user, terminal := openTerminal(t)
	saved := filepath.Join(t.TempDir(), "saved")
	cmd := startOnTerminal(t, terminal, "--grace", "30", "-n", "2", "rank", "save", saved)
	for text, buf := "", make([]byte, 100); strings.Count(text, "ready") < 2; {
		n, err := user.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		text += string(buf[:n])
	}
	if err := user.Close(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Process.Signal(syscall.SIGHUP) // as the shell does; it may have ended
	if code := waitFor(t, cmd); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	for rank := range 2 {
		if _, err := os.Stat(fmt.Sprintf("%s.%d", saved, rank)); err != nil {
			t.Errorf("rank %d was killed before it had saved its state: %v", rank, err)
		}
	}
}
