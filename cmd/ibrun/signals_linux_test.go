package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/internal/waittest"
)

// waitUnread is like wait, but the output of ibrun is not read.
func (p *process) waitUnread() int {
	p.t.Helper()
	hung := time.AfterFunc(waittest.Limit, func() { p.cmd.Process.Kill() })
	err := p.cmd.Wait()
	if !hung.Stop() {
		p.t.Fatalf("ibrun does not end while its output is not read: %v", err)
	}
	return p.cmd.ProcessState.ExitCode()
}

// unread returns how many bytes of ibrun's standard output have not been read, and whether ibrun has ended.
func (p *process) unread() (n int, ended bool) {
	p.t.Helper()
	out, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/1", p.cmd.Process.Pid), os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrNotExist) { // an exiting process closes its files before it has ended
		state, _ := p.stat(p.cmd.Process.Pid)
		return 0, state == "Z"
	}
	if err != nil {
		p.t.Fatal(err)
	}
	defer out.Close()
	if n, err = unix.IoctlGetInt(int(out.Fd()), unix.TIOCINQ); err != nil {
		p.t.Fatal(err)
	}
	return n, false
}

// awaitFullOutput waits until ibrun's output is not read and does not grow any more. It reports false if ibrun has ended.
func (p *process) awaitFullOutput() bool {
	p.t.Helper()
	ended := false
	p.eventually("the output is not stuck", func() bool {
		before, _ := p.unread()
		waittest.Elapse(p.t, 50*time.Millisecond, "output that is not stuck grows")
		var after int
		after, ended = p.unread()
		return ended || before > 0 && after == before
	})
	return !ended
}

// startUnread starts a job whose output is not read, and waits until that is stuck. command returns the command with this
// --timeout, if it has one: then longer ones are tried until the output is stuck in time.
func startUnread(t *testing.T, command func(timeout string) *exec.Cmd) *process {
	t.Helper()
	for _, timeout := range []string{"0.3", "4", "15", "45"} {
		p := startCommand(t, 0, command(timeout))
		if p.awaitFullOutput() {
			return p
		}
		if code := p.waitUnread(); code != 124 {
			t.Fatalf("ibrun has ended with exit code %d; stderr:\n%s", code, p.stderrText())
		}
	}
	t.Fatal("the output is not stuck in time")
	return nil
}

// A signal ends ibrun while it waits for other nodes, although its standard error is not read.
func TestSignalWhileJoiningUnread(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, os.Getpagesize()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, os.Getpagesize())); err != nil {
		t.Fatal(err)
	}
	ns := newNodes(t, 2)
	p := &process{t: t, cmd: ns.command(0, "-n", "2", "true")}
	p.cmd.Stderr = w
	err = p.cmd.Start()
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	p.eventually("node 0 does not listen", func() bool {
		c, err := net.Dial("tcp", ns.addr)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	p.signal(p.cmd.Process.Pid, unix.SIGINT)
	if code := p.waitUnread(); code != 130 {
		t.Errorf("exit code %d, want 130", code)
	}
}

// TestSignalsWhileUnread: a signal, --timeout and a failure end a job whose standard output and standard error are one pipe that
// is not read, and the exit code is right.
func TestSignalsWhileUnread(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sig  syscall.Signal
		args string
		code int
	}{
		"SIGINT":         {syscall.SIGINT, "-n 2 yes", 130},
		"SIGTERM":        {syscall.SIGTERM, "-n 2 yes", 143},
		"SIGHUP":         {syscall.SIGHUP, "-n 2 yes", 129},
		"after grace":    {syscall.SIGINT, "--grace 0.1 -n 2 sh -c 'trap \"\" INT; yes; true'", 130},
		"with a report":  {syscall.SIGINT, "--report=- -v -n 2 yes", 130},
		"--timeout":      {0, "--timeout LIMIT -n 2 yes", 124},
		"success before": {syscall.SIGTERM, "-n 2 rank flood 100000", 143},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startUnread(t, func(timeout string) *exec.Cmd {
				return exec.Command("sh", "-c", "exec ibrun "+strings.ReplaceAll(c.args, "LIMIT", timeout)+" 2>&1")
			})
			if c.sig != 0 {
				p.signal(p.cmd.Process.Pid, c.sig)
			}
			code := p.waitUnread()
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			p.wantNoProcesses()
		})
	}
}

// TestGrace: ranks that ignore a signal are killed after --grace, and nothing else is needed for that.
func TestGrace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sig  syscall.Signal
		args string
		code int
		want string
	}{
		{syscall.SIGINT, "--grace 0.2", 130, "ranks 0-1 did not end within 200ms (--grace), and were killed (SIGINT)\n"},
		{syscall.SIGTERM, "--grace 0.2", 143, "ranks 0-1 did not end within 200ms (--grace), and were killed (SIGTERM)\n"},
		{syscall.SIGHUP, "--grace 0.2", 129, "ranks 0-1 did not end within 200ms (--grace), and were killed (SIGHUP)\n"},
		{syscall.SIGTERM, "--grace 0", 143, "ranks 0-1 did not end within 0s (--grace), and were killed (SIGTERM)\n"},
		{0, "--grace 0.2", 124, "(--timeout); ranks 0-1 on "},
	} {
		t.Run(c.args+" "+c.sig.String(), func(t *testing.T) {
			t.Parallel()
			p := starter(c.sig)(t, 2, append(strings.Fields(c.args), "-n", "2", "rank", "stubborn")...)
			if c.sig != 0 {
				p.signal(p.cmd.Process.Pid, c.sig)
			}
			p.wantCode(c.code, c.want)
		})
	}
}

// TestFailureGrace: after the failure of a rank the others have --failure-grace between SIGTERM and SIGKILL.
func TestFailureGrace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ grace, rank, want string }{
		{"20", "farewell", "farewell\n"},
		{"0.1", "stubborn", ""},
		{"0", "patient", ""}, // it prints every SIGTERM
	} {
		fifo := filepath.Join(t.TempDir(), "fifo")
		if err := syscall.Mkfifo(fifo, 0o600); err != nil {
			t.Fatal(err)
		}
		p := startJob(t, 1, "--failure-grace", c.grace, "-n", "1", "rank", "lead", fifo, ":", "-n", "1", "rank", c.rank)
		in, err := os.Open(fifo) // rank 0 now fails
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		text, err := io.ReadAll(p.out)
		if err != nil || string(text) != c.want {
			t.Errorf("--failure-grace %s: a rank wrote %q, %v; want %q", c.grace, text, err, c.want)
		}
		p.wantCode(3, "rank 0 on ")
	}
}

// TestStoppedAgent: a job whose agent was stopped ends on a signal, and on --timeout.
func TestStoppedAgent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sig  syscall.Signal
		args []string
		code int
	}{
		{syscall.SIGTERM, []string{"-n", "2", "rank", "sleep"}, 143},
		{syscall.SIGINT, []string{"--grace", "0.2", "-n", "2", "rank", "stubborn"}, 130},
		{0, []string{"-n", "2", "rank", "sleep"}, 124},
	} {
		t.Run(c.sig.String(), func(t *testing.T) {
			t.Parallel()
			if c.sig != 0 {
				p := startJob(t, 2, c.args...)
				p.signal(p.agent(), syscall.SIGSTOP)
				p.signal(p.cmd.Process.Pid, c.sig)
				p.wantCode(c.code, "")
				return
			}
			for _, limit := range timeouts { // until the agent is stopped within that time
				p := tryWithin(t, limit, 2, c.args...)
				if p == nil {
					continue
				}
				agent := p.partOrNone("agent")
				stopped := agent != 0 && syscall.Kill(agent, syscall.SIGSTOP) == nil
				p.wantCode(c.code, "")
				if stopped {
					return
				}
			}
			t.Error("the job ends before its agent is stopped")
		})
	}
}

// TestSameSignalOnNodes: a signal that is sent to all nodes of a job, or twice by a tool such as timeout(1), is one request: the
// ranks have the whole grace.
func TestSameSignalOnNodes(t *testing.T) {
	t.Parallel()
	// Each ibrun must handle both signals within a second, for which it may be too busy. TestUserRequests is exact.
	waittest.UntilNil(t, "two signals are one request", func() error {
		ns := newNodes(t, 2).start(1, "--grace", "0.3", "-n", "2", "rank", "stubborn")
		for range 2 {
			for _, p := range ns.list {
				p.signal(p.cmd.Process.Pid, syscall.SIGTERM)
			}
		}
		wrong := ""
		for _, p := range ns.list {
			wrong += p.ended(143, "ranks 0-1 did not end within 300ms (--grace), and were killed (SIGTERM)\n")
		}
		if wrong != "" {
			return errors.New(wrong)
		}
		return nil
	})
}

// TestTermOnNodes: ranks that save their state for a while after SIGTERM do so, whatever the order in which the ibruns of all
// nodes receive the signal, and however long after each other.
func TestTermOnNodes(t *testing.T) {
	t.Parallel()
	random := newRandom(t)
	for range soaktest.Choose(20, 1) {
		file := filepath.Join(t.TempDir(), "state")
		ns := newNodes(t, 3).start(2, "--grace", "1m", "-n", "6", "rank", "save", file, soaktest.Choose("1s", "300ms"))
		for _, k := range random.Perm(3) {
			ns.list[k].signal(ns.list[k].cmd.Process.Pid, syscall.SIGTERM)
			pause := time.Duration(random.Int64N(soaktest.Choose(int64(300*time.Millisecond), 1))) // 0 without soak
			waittest.Elapse(t, pause, "the nodes receive the signal after each other")
		}
		ns.wantCode(0, "")
		for rank := range 6 {
			if !exists(fmt.Sprintf("%s.%d", file, rank)) {
				t.Errorf("rank %d has saved nothing", rank)
			}
		}
	}
}

// TestSignalWhileNode0Hangs: a node whose user asks it to end does so although node 0 is stopped.
func TestSignalWhileNode0Hangs(t *testing.T) {
	t.Parallel()
	for _, grace := range []string{"0.2", "4", "16"} { // until the rank ends within that time and 2.5 s
		ns := newNodes(t, 2).start(1, "--grace", grace, "-n", "2", "rank", "patient")
		ns.list[0].signal(ns.list[0].cmd.Process.Pid, syscall.SIGSTOP)
		ns.list[1].signal(ns.list[1].cmd.Process.Pid, syscall.SIGTERM)
		line, err := ns.list[1].lineOrEnd()
		ns.list[1].wantCode(143, "node 0 did not end the job")
		ns.list[0].signal(ns.list[0].cmd.Process.Pid, syscall.SIGCONT)
		ns.list[0].wait()
		if err == nil {
			if line != "received terminated\n" {
				t.Errorf("a rank wrote %q", line)
			}
			return
		}
	}
	t.Error("the rank does not end when asked")
}

// TestInvalidPMI: a rank that sends something else than PMI on PMI_FD ends the job with its name.
func TestInvalidPMI(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"hello":        `violated PMI-1, the protocol of PMI_FD: malformed message: starts with "hello`,
		"cmd=dance x=": `violated PMI-1, the protocol of PMI_FD: malformed message: unknown command "dance"`,
	} {
		p := startJob(t, 0, "-n", "1", "rank", "sleep", ":", "-n", "1", "rank", "garbage", text)
		p.wantCode(1, "rank 1 on ")
		if !strings.Contains(p.stderrText(), want) {
			t.Errorf("ibrun printed\n%s\nwant %s", p.stderrText(), want)
		}
	}
	ns := newNodes(t, 2).start(0, "-n", "2", "sh", "-c", "test $PMI_RANK = 0 || rank garbage hello; sleep 1000")
	ns.wantCode(1, "rank 1 on n1 ")
}

// TestSecondProgram: a second MPI program in a rank receives an error immediately.
func TestSecondProgram(t *testing.T) {
	t.Parallel()
	p := startJob(t, 0, "-n", "2", "sh", "-c", "rank brief && rank brief")
	p.wantCode(1, "another program of this rank has received ibrun's first message")
}

// TestNotifyContext: a job whose ranks handle signals by signal.NotifyContext ends although some ranks wait for others that have
// left. The exit code is that of a rank whose receive has failed, or that of the signal.
func TestNotifyContext(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"return", "finalize"} {
		for _, transport := range []string{"shm", "tcp"} {
			t.Run(how+" "+transport, func(t *testing.T) {
				t.Parallel()
				p := startJob(t, 3, "--grace", "20", "--transport", transport, "-n", "3", "rank", "notify", how)
				p.signal(p.cmd.Process.Pid, syscall.SIGINT)
				if code := p.wait(); code != 1 && code != 130 {
					t.Errorf("exit code %d, want 1 or 130; stderr:\n%s", code, p.stderrText())
				}
				p.wantNoProcesses()
			})
		}
	}
}
