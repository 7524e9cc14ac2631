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

	"github.com/ibrun/ibrun/internal/needtest"
)

// launchAgent makes a launch agent, a shell script that is called with a host and a command. All hosts are this machine.
func launchAgent(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent")
	if err := os.WriteFile(path, []byte("#!/bin/sh\nhost=$1\nshift\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// direct is the script of a launch agent that works.
const direct = `exec "$@"`

// startOn returns the command of a job on these hosts, which a launch agent with this script reaches.
func startOn(t *testing.T, script, hosts string, args ...string) *exec.Cmd {
	t.Helper()
	return exec.Command("ibrun", append([]string{"--launch-agent", launchAgent(t, script), "--hosts", hosts, "--node-name", "h0",
		"--heartbeat", "1m"}, args...)...)
}

// wantOutput waits for the end of a job, which must succeed and write all of these texts to standard output or standard error.
func (p *process) wantOutput(texts ...string) {
	p.t.Helper()
	out, err := io.ReadAll(p.out)
	if err != nil {
		p.t.Fatal(err)
	}
	p.wantCode(0, "")
	for _, want := range texts {
		if all := string(out) + p.stderrText(); !strings.Contains(all, want) {
			p.t.Errorf("the output lacks %q:\n%s", want, all)
		}
	}
}

// ibrun starts the other nodes itself. Node 0 has no ranks if its host is not in the list.
func TestStartedNodes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		hosts string
		ranks int
	}{{"h0:1,b:2,c:1", 4}, {"a:2,b:1", 3}, {"b", 1}} {
		args := []string{"-l"}
		if !strings.Contains(c.hosts, ":") {
			args = append(args, "-n", fmt.Sprint(c.ranks))
		}
		p := startCommand(t, 0, startOn(t, direct, c.hosts, append(args, "rank", "pmi")...))
		var want []string
		for rank := range c.ranks {
			want = append(want, fmt.Sprintf("[%d] rank %d of %d", rank, rank, c.ranks))
		}
		p.wantOutput(want...)
	}
}

// A host that cannot be used is named at once, with the reason, the remedy and the command.
func TestHostCannotBeUsed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, script string
		code         int
		want         []string
	}{
		{"asks for a password", "echo 'me@b: Permission denied (publickey,password).' >&2; exit 255", 1,
			[]string{"cannot start ibrun on b: me@b: Permission denied (publickey,password).; ", "ssh-copy-id b",
				"it was started with: "}},
		{"unknown key", "echo 'Host key verification failed.' >&2; exit 255", 1, []string{"check and accept the key of b: ssh b true"}},
		{"changed key", "echo '@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @' >&2; exit 255", 1, []string{"ssh-keygen -R b"}},
		{"no ibrun", "echo 'sh: 1: ibrun: not found' >&2; exit 127", 127,
			[]string{"ibrun is not installed there; install ibrun there as /"}},
		{"not executable", "exit 126", 126, []string{"ibrun cannot be executed there; check its permissions"}},
		{"other architecture", "echo 'sh: 1: /usr/bin/ibrun: Exec format error' >&2; exit 126", 126,
			[]string{"its ibrun is for another architecture; install"}},
		{"other version", "echo ibrun-node 99 v9.9.9 b; cat", 1, []string{"it has ibrun v9.9.9 (protocol 99), and this host",
			"install the same version on all hosts"}},
		{"older version", "echo 'ibrun: node: no such program in PATH; a program in this directory' >&2; exit 127", 127,
			[]string{"its ibrun is too old"}},
		{"full disk", "echo 'ibrun: write /x: no space left on device' >&2; exit 1", 1, []string{"make room on the disks of b"}},
		{"garbage", "yes", 1, []string{"it wrote more than 64 KiB that are not of ibrun; run the command by hand", "\n  | y\n"}},
		{"garbage after the greeting", "\"$@\" <&- | head -2; yes", 1, []string{"b: it does not speak the protocol of ibrun"}},
		{"ends", "\"$@\" </dev/null; exit 3", 1, []string{"b: ", "agent ended with exit code 3"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := startCommand(t, 0, startOn(t, c.script, "h0:1,b:1", "--join-timeout", "1h", "rank", "pmi"))
			if code := p.wait(); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			for _, want := range c.want {
				if !strings.Contains(p.stderrText(), want) {
					t.Errorf("standard error lacks %q:\n%s", want, p.stderrText())
				}
			}
			p.wantNoProcesses()
		})
	}
}

// A host that says nothing is given up after --join-timeout. The message says whether ibrun was started there.
func TestHostIsSilent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, script, want string }{
		{"before the greeting", "exec sleep 1000", "b: ibrun did not answer in time (--join-timeout)"},
		{"after the greeting", "\"$@\" </dev/null 2>&- | grep ibrun-node; exec sleep 1000",
			"node 1 (b) of 2 did not join within %s (--join-timeout); ibrun was started there"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			printed := ""
			for _, limit := range []string{"1s", "4s", "15s", "45s"} { // until the greeting arrives within that time
				p := startCommand(t, 0, startOn(t, c.script, "h0:1,b:1", "--join-timeout", limit, "rank", "pmi"))
				if code := p.wait(); code != 1 {
					t.Errorf("exit code %d, want 1", code)
				}
				p.wantNoProcesses()
				printed = p.stderrText()
				if strings.Contains(printed, strings.ReplaceAll(c.want, "%s", limit)) {
					return
				}
			}
			t.Errorf("standard error lacks %q:\n%s", c.want, printed)
		})
	}
}

// What a login shell prints does no harm. A host that cannot be reached yet is tried again, and ibrun is also looked for in the
// PATH of the host.
func TestHostNeedsPatience(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"banner": "echo Welcome; echo 'Last login: yesterday'; printf '\\a\\n'; " + direct,
		"refuses at first": "mkdir $0.1 2>&- && { echo 'ssh: connect to host b port 22: Connection refused' >&2; exit 255; }\n" +
			"mkdir $0.2 2>&- && { echo 'ssh: Could not resolve hostname b' >&2; exit 255; }\n" + direct,
		"in PATH": "case $1 in /*) echo 'not found' >&2; exit 127; esac; " + direct,
	} {
		p := startCommand(t, 0, startOn(t, script, "h0:1,b:1", "-l", "rank", "pmi"))
		t.Log(name)
		p.wantOutput("[1] rank 1 of 2")
	}
}

// A host that refuses connections is given up after --join-timeout.
func TestHostRefuses(t *testing.T) {
	t.Parallel()
	printed := ""
	for _, limit := range []time.Duration{time.Second, 5 * time.Second, 20 * time.Second} { // until it has refused within that time
		began := time.Now()
		p := startCommand(t, 0, startOn(t, "echo 'ssh: connect to host b port 22: Connection refused' >&2; exit 255", "h0:1,b:1",
			"--join-timeout", limit.String(), "rank", "pmi"))
		p.wantCode(1, "cannot start ibrun on b: ")
		if took := time.Since(began); took < limit/2 {
			t.Errorf("a host that refused was given up after %v of %v", took, limit)
		}
		printed = p.stderrText()
		if strings.Contains(printed, "Connection refused, for "+limit.String()+" (--join-timeout)") {
			return
		}
	}
	t.Errorf("ibrun printed\n%s", printed)
}

// startSleeping starts four ranks that sleep, two of them on node 0, and waits until they are ready.
func startSleeping(t *testing.T) *process {
	t.Helper()
	return startCommand(t, 4, startOn(t, "trap : TERM; \"$@\"", "h0:2,b:1,c:1", "--heartbeat", "1h", "rank", "sleep"))
}

// partsOf returns the processes of the job with this command line, in any order.
func (p *process) partsOf(command string) (pids []int) {
	p.t.Helper()
	for _, pid := range p.alive() {
		args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && strings.Contains(strings.ReplaceAll(string(args), "\x00", " "), command) {
			pids = append(pids, pid)
		}
	}
	if len(pids) == 0 {
		p.t.Fatalf("no process %q", command)
	}
	return pids
}

// Whatever is killed, everything ends, on all nodes, and nothing is left.
func TestKillStartedNodes(t *testing.T) {
	t.Parallel()
	t.Run("coordinator", func(t *testing.T) {
		p := startSleeping(t)
		p.signal(p.cmd.Process.Pid, syscall.SIGKILL)
		p.wait()
		p.wantNoProcesses()
	})
	t.Run("launch agent", func(t *testing.T) {
		p := startSleeping(t)
		p.signal(p.partsOf("/agent b /")[0], syscall.SIGKILL)
		p.wantCode(1, "b")
	})
	t.Run("node", func(t *testing.T) {
		p := startSleeping(t)
		for _, pid := range p.partsOf("bin/ibrun node ") {
			if args, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err == nil && string(args) == "ibrun\n" {
				p.signal(pid, syscall.SIGKILL)
				break
			}
		}
		p.wantCode(1, "ibrun")
	})
	t.Run("rank", func(t *testing.T) {
		p := startSleeping(t)
		p.signal(p.pids[3], syscall.SIGKILL)
		p.wantCode(137, "was killed by signal 9 (SIGKILL)")
	})
	t.Run("interrupt", func(t *testing.T) {
		p := startSleeping(t)
		p.signal(p.cmd.Process.Pid, syscall.SIGINT)
		p.wantCode(130, "was killed by signal 2 (SIGINT)")
	})
}

// A program is copied to a host that lacks it if the user wants that, and the copy is removed. Otherwise the error says what to
// do. The host is a mount namespace, in which the directory of the program is empty.
func TestCopyProgram(t *testing.T) {
	t.Parallel()
	needtest.Namespaces(t, "--mount")
	dir, empty, copies := t.TempDir(), t.TempDir(), t.TempDir()
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho $PMI_RANK runs $0\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf(`TMPDIR=%s exec unshare -m sh -c 'mount --bind "$0" "$1" && shift && exec "$@"' %s %s "$@"`, copies, empty,
		dir)
	startCommand(t, 0, startOn(t, script, "h0:1,b:1", program)).wantCode(127, "b: host b does not have the program: "+program+
		": no such file or directory; install it there under the same path, or let ibrun copy it (--copy)")
	startCommand(t, 0, startOn(t, script, "h0:1,b:2", "--copy", program)).wantOutput("0 runs "+program+"\n", "1 runs "+copies,
		"2 runs "+copies)
	if left, err := filepath.Glob(filepath.Join(copies, "*")); err != nil || len(left) > 0 {
		t.Errorf("%q remain, %v", left, err)
	}
}

// Without /proc ibrun says what it needs.
func TestNoProc(t *testing.T) {
	t.Parallel()
	unshare := needtest.Namespaces(t, "--mount")
	cmd := exec.Command(unshare, "--mount", "sh", "-c", "mount -t tmpfs none /proc && exec ibrun -n 1 true")
	startCommand(t, 0, cmd).wantCode(1, "ibrun: start watcher: /proc/self/exe: no such file or directory; ibrun needs /proc\n")
}

// A working directory that a host lacks is an error that names the host and what to do.
func TestWorkingDirectoryIsMissing(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "work")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := startOn(t, fmt.Sprintf("cd /; rmdir %s; exec \"$@\"", dir), "a:1", "rank", "pmi")
	cmd.Dir = dir
	startCommand(t, 0, cmd).wantCode(2, "the working directory cannot be used on a: chdir "+dir)
}
