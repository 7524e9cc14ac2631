package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/ibrun/ibrun/internal/needtest"
)

// If output is lost, ibrun says so and does not exit with 0.
func TestOutputIsLost(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	unread, closed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer closed.Close()
	unread.Close()
	const noSpace = "write /dev/stdout: no space left on device\n"
	for _, c := range []struct {
		name   string
		stdout *os.File
		args   []string
		code   int
		stderr string
	}{
		{"full device", full, []string{"echo", "hello"}, 1, "ibrun: output of rank 0 on "},
		{"full device, reason", full, []string{"echo", "hello"}, 1, noSpace},
		{"full device, killed by SIGPIPE", full, []string{"yes"}, 1, "(SIGPIPE), after its output was lost: " + noSpace},
		{"file on a full device", nil, []string{"--output", "/dev/full", "echo", "hello"}, 1,
			"was lost: write /dev/full: no space left on device\n"},
		// As other programs, which SIGPIPE kills.
		{"closed by the reader", closed, []string{"echo", "hello"}, 141, ""},
		{"closed by the reader, killed by SIGPIPE", closed, []string{"yes"}, 141, ""},
		{"closed by the reader, killed below a shell", closed, []string{"sh", "-c", "yes; exit $?"}, 141, ""},
		{"closed by the reader, failure", closed, []string{"sh", "-c", "echo hello; exit 3"}, 3, "ended with exit code 3"},
	} {
		cmd := exec.Command("ibrun", append([]string{"-n", "2"}, c.args...)...)
		stderr := new(strings.Builder)
		cmd.Stderr = stderr
		if c.stdout != nil {
			cmd.Stdout = c.stdout
		}
		if err := cmd.Run(); cmd.ProcessState.ExitCode() != c.code || !strings.Contains(stderr.String(), c.stderr) ||
			c.stderr == "" && stderr.Len() > 0 {
			t.Errorf("%s: %v, want exit code %d and %q:\n%s", c.name, err, c.code, c.stderr, stderr)
		}
	}
	ns := newNodes(t, 2)
	ns.list[0] = startCommand(t, 0, ns.command(0, "-n", "2", "echo", "hello"))
	stderr := new(strings.Builder)
	second := ns.command(1, "-n", "2", "echo", "hello")
	second.Stdout, second.Stderr = full, stderr
	if err := second.Run(); second.ProcessState.ExitCode() != 1 || !strings.Contains(stderr.String(), noSpace) {
		t.Errorf("output is lost on node 1: %v:\n%s", err, stderr)
	}
	ns.list[0].wantCode(1, "ibrun: output of rank 1 on n1 ")
}

// The limit of processes that has ended a rank is named.
func TestProcessLimits(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("bash", "-c", "ulimit -St 60 && exec ibrun -n 1 sh -c 'kill -XCPU $$'")
	text, err := cmd.CombinedOutput()
	const want = "(SIGXCPU): the limit of processor time is 60 s (ulimit -t)\n"
	if code := cmd.ProcessState.ExitCode(); code != 128+int(syscall.SIGXCPU) || !strings.HasSuffix(string(text), want) {
		t.Errorf("%v: %q, want %q", err, text, want)
	}
}

// limit is a file of a control group, and what is written to it.
type limit struct{ root, file, value string }

// controlGroup creates a control group with a limit, the first of those given that this machine has, and returns a command that
// moves its shell into the group.
func controlGroup(t *testing.T, limits ...limit) (enter string) {
	t.Helper()
	for _, l := range limits {
		dir := filepath.Join(l.root, fmt.Sprintf("test-ibrun-%d-%s", os.Getpid(), t.Name()))
		if err := os.Mkdir(dir, 0o755); err != nil {
			continue
		}
		t.Cleanup(func() { os.Remove(dir) })
		if err := os.WriteFile(filepath.Join(dir, l.file), []byte(l.value), 0); err == nil {
			return "echo $$ >" + dir + "/cgroup.procs && "
		}
	}
	needtest.Missing(t, "root and control groups with this controller, which containers mostly do not have")
	return ""
}

// A CPU quota bounds the number of ranks that are started without -n.
func TestCPUQuota(t *testing.T) {
	enter := controlGroup(t, limit{"/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "50000"},
		limit{"/sys/fs/cgroup", "cpu.max", "50000 100000"})
	out, err := exec.Command("sh", "-c", enter+"ibrun echo one; ibrun -n 3 echo three").CombinedOutput()
	note := ""
	if n := runtime.NumCPU(); n > 1 {
		note = fmt.Sprintf("ibrun: 1 of %d possible ranks are started, because the control group allows 0.5 processors", n)
	}
	if err != nil || strings.Count(string(out), "one\n") != 1 || strings.Count(string(out), "three\n") != 3 ||
		!strings.Contains(string(out), note) {
		t.Errorf("%v:\n%s", err, out)
	}
}

// A rank that the kernel has killed because memory ran out is named with that reason, and so is one that only was killed.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	enter := controlGroup(t, limit{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "240M"},
		limit{"/sys/fs/cgroup", "memory.max", "240M"}) // enough for all processes with the race detector, until one eats it
	p := startCommand(t, 0, exec.Command("sh", "-c", enter+"exec ibrun -n 2 rank eat"))
	p.wantCode(137, ") was killed by signal 9 (SIGKILL): the kernel ran out of memory; the limit of its control group is 240 MiB\n")
	if !strings.Contains(p.stderrText(), "ibrun: rank 1 on ") {
		t.Errorf("rank 1 is not named:\n%s", p.stderrText())
	}
	p = startCommand(t, 2, exec.Command("sh", "-c", enter+"exec ibrun -n 2 rank sleep"))
	p.signal(p.pids[0], syscall.SIGKILL)
	p.wantCode(137, ") was killed by signal 9 (SIGKILL)\n")
}

// Jobs run with limits of open files below the numbers of the descriptors that ranks have otherwise, or are refused with one line
// that names the limit.
func TestFewFiles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limit, ranks int
		want         string
	}{
		{80, 1, "rank 0 of 1\n"}, {80, 2, "rank 1 of 2\n"}, {100, 4, "rank 3 of 4\n"},
		{80, 9, "ibrun: 9 ranks on one machine need 129 open files, but the limit is 80 (ulimit -Hn)\n"},
	} {
		command := fmt.Sprintf("ulimit -n %d; exec ibrun -n %d rank pmi", c.limit, c.ranks)
		out, err := exec.Command("sh", "-c", command).CombinedOutput()
		if refused := strings.HasPrefix(c.want, "ibrun: "); refused != (err != nil) || !strings.Contains(string(out), c.want) ||
			refused && string(out) != c.want {
			t.Errorf("%s: %v; want %q:\n%s", command, err, c.want, out)
		}
	}
}

// A command whose own output is lost says so and does not exit with 0.
func TestCommandOutputIsLost(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	for name := range commands() {
		if internalCommand(name) {
			continue
		}
		lines := []string{name + " --help"}
		switch name {
		case "version", "topo", "ps":
			lines = append(lines, name)
		case "help":
			lines = append(lines, name, "--help", "-n 1 --dry-run true")
		case "explain":
			lines = append(lines, "explain 8")
		case "secret":
			lines = append(lines, "secret "+filepath.Join(t.TempDir(), "secret"))
		}
		for _, line := range lines {
			cmd := exec.Command("ibrun", strings.Fields(line)...)
			var stderr strings.Builder
			cmd.Stdout, cmd.Stderr = full, &stderr
			var exit *exec.ExitError
			if err := cmd.Run(); !errors.As(err, &exit) || exit.ExitCode() == 0 || !strings.Contains(stderr.String(), "no space left") {
				t.Errorf("ibrun %s ended with %v:\n%s", line, err, &stderr)
			}
		}
	}
}
