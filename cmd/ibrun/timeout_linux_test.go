package main

import (
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ibrun/ibrun/internal/waittest"
)

// TestTimeoutOfOutput: --timeout also ends a job whose ranks have exited but whose output cannot be forwarded. The last line of
// ibrun says whose output is incomplete and why.
func TestTimeoutOfOutput(t *testing.T) {
	t.Parallel()
	held := filepath.Join(t.TempDir(), "held")
	l, err := net.Listen("unix", held)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // the kernel keeps what was sent there until the connection is accepted
	for name, c := range map[string]struct{ rank, last string }{
		"not read": {"flood 100000", "is incomplete: ibrun's standard output did not accept it\n"},
		// more than two pipes can hold
		"held open": {"pass-stdout " + held, "may be incomplete: a process outside the job has it open\n"},
	} {
		t.Run(name, func(t *testing.T) { timeoutOfOutput(t, strings.Fields("rank "+c.rank), c.last) })
	}
}

func timeoutOfOutput(t *testing.T, rank []string, last string) {
	printed := ""
	for _, limit := range []string{"0.5", "4", "15", "45"} { // until the rank exits within that time
		p := startJob(t, 0, append([]string{"-n", "1", "--timeout", limit}, rank...)...)
		hung := time.AfterFunc(waittest.Limit, func() { p.cmd.Process.Kill() })
		err := p.cmd.Wait() // its output is not read
		if !hung.Stop() {
			t.Fatalf("ibrun does not end; it printed\n%s", p.stderrText())
		}
		if code := p.cmd.ProcessState.ExitCode(); code != 124 {
			t.Fatalf("ibrun ended with %d, %v; it printed\n%s", code, err, p.stderrText())
		}
		printed = p.stderrText()
		why := "(--timeout); all ranks had exited, but their output or child processes remained\nibrun: the output of rank 0 on "
		if strings.Contains(printed, why) && strings.HasSuffix(printed, last) {
			return
		}
	}
	t.Errorf("ibrun printed\n%s\nwant as last line %q", printed, last)
}

// TestTimeoutUnread: --timeout ends the ranks even if ibrun cannot print that because its output is not read.
func TestTimeoutUnread(t *testing.T) {
	t.Parallel()
	p := startUnread(t, func(timeout string) *exec.Cmd {
		return exec.Command("sh", "-c", "exec ibrun -n 2 --timeout "+timeout+" yes 2>&1")
	})
	if code := p.waitUnread(); code != 124 {
		t.Errorf("exit code %d, want 124", code)
	}
	p.wantNoProcesses()
}
