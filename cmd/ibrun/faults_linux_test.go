package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/proctree"
	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/internal/waittest"
)

// process is a running ibrun. It and all of its descendants have a mark in their environment.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	out    *bufio.Reader
	stderr *os.File
	mark   string
	pids   []int // of the ranks that printed that they are ready, or of the orphans that ranks printed
	long   bool  // it may run longer than waittest.Limit
}

// startJob starts ibrun and waits until that many lines of output have named a process.
func startJob(t *testing.T, lines int, args ...string) *process {
	t.Helper()
	return startCommand(t, lines, exec.Command("ibrun", args...))
}

func startCommand(t *testing.T, lines int, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, mark: fmt.Sprintf("IBRUN_TEST_MARK=%s.%d", t.Name(), time.Now().UnixNano())}
	cmd.Env = append(os.Environ(), cmd.Env...)
	cmd.Env = append(cmd.Env, p.mark)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if p.stderr, err = os.Create(filepath.Join(t.TempDir(), "stderr")); err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = p.stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.stderr.Close()
		p.kill()
	})
	p.out = bufio.NewReader(out)
	p.ready(lines)
	return p
}

// starter returns how a test starts a job to which it sends a signal, or, if sig is 0, one that --timeout ends.
func starter(sig syscall.Signal) func(t *testing.T, lines int, args ...string) *process {
	if sig == 0 {
		return startWithin
	}
	return startJob
}

// timeouts are what tests with --timeout try one after the other, until one suffices on this machine.
var timeouts = []time.Duration{2 * time.Second, 10 * time.Second, 50 * time.Second, 90 * time.Second}

// startWithin starts ibrun with a --timeout, so long that half of it is left when that many lines of output have named a process.
func startWithin(t *testing.T, lines int, args ...string) *process {
	t.Helper()
	for _, limit := range timeouts {
		if p := tryWithin(t, limit, lines, args...); p != nil {
			return p
		}
	}
	t.Fatal("the ranks do not start in time")
	return nil
}

// tryWithin is startWithin with this --timeout. If it does not suffice, it waits for the end of the job and returns nil.
func tryWithin(t *testing.T, limit time.Duration, lines int, args ...string) *process {
	t.Helper()
	begun := time.Now()
	p := startJob(t, 0, append([]string{"--timeout", limit.String()}, args...)...)
	if p.readyOrEnded(lines) && time.Since(begun) < limit/2 {
		return p
	}
	p.wantCode(124, "(--timeout)")
	return nil
}

// ready waits until that many lines of output have named a process.
func (p *process) ready(lines int) {
	p.t.Helper()
	if !p.readyOrEnded(lines) {
		p.t.Fatalf("no more output; stderr:\n%s", p.stderrText())
	}
}

// readyOrEnded waits until that many lines of output have named a process, and reports false if the output ends before.
func (p *process) readyOrEnded(lines int) bool {
	p.t.Helper()
	for range lines {
		text, err := p.lineOrEnd()
		if err != nil {
			return false
		}
		words := strings.Fields(text)
		pid, err := strconv.Atoi(words[1])
		if err != nil {
			p.t.Fatalf("ibrun wrote %q", words)
		}
		p.pids = append(p.pids, pid)
	}
	return true
}

// line returns the next line of output.
func (p *process) line() string {
	p.t.Helper()
	text, err := p.lineOrEnd()
	if err != nil {
		p.t.Fatalf("no more output (%v); stderr:\n%s", err, p.stderrText())
	}
	return text
}

// lineOrEnd returns the next line of output, or an error if there is none.
func (p *process) lineOrEnd() (text string, err error) {
	p.t.Helper()
	next := make(chan struct{})
	go func() {
		text, err = p.out.ReadString('\n')
		close(next)
	}()
	waittest.Receive(p.t, "a line of output", next)
	return text, err
}

// stderrText returns what ibrun has written to standard error so far.
func (p *process) stderrText() string {
	p.t.Helper()
	text, err := os.ReadFile(p.stderr.Name())
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text)
}

// stderrInTime returns stderrText without the lines that another ibrun has caused by starting seconds later.
func (p *process) stderrInTime() (text string) {
	p.t.Helper()
	for line := range strings.Lines(p.stderrText()) {
		if !strings.Contains(line, "still waiting for ") {
			text += line
		}
	}
	return text
}

// signal sends a signal to a process. After SIGSTOP it returns when the process has stopped: its threads go on until one of them
// has taken the signal.
func (p *process) signal(pid int, sig syscall.Signal) {
	p.t.Helper()
	if pid <= 0 {
		p.t.Fatalf("signal %v for process %d", sig, pid) // 0 is all processes of this test
	}
	if err := syscall.Kill(pid, sig); err != nil {
		p.t.Fatal(err)
	}
	if sig == syscall.SIGSTOP {
		p.eventually(fmt.Sprintf("process %d has not stopped", pid), func() bool { return hasStopped(pid) })
	}
}

// hasStopped reports whether all threads of a process have stopped or ended.
func hasStopped(pid int) bool {
	pattern := fmt.Sprintf("/proc/%d/task/*", pid)
	threads, _ := filepath.Glob(pattern)
	runs := slices.ContainsFunc(threads, func(path string) bool {
		id, _ := strconv.Atoi(filepath.Base(path)) // the name is a number
		thread, err := proctree.ReadProcess(id)    // the file of a thread has the state of the thread
		return err == nil && !thread.Stopped() && !thread.Exiting
	})
	after, _ := filepath.Glob(pattern) // a thread may have started another one before it stopped
	return !runs && slices.Equal(threads, after)
}

// wait waits until ibrun has exited and returns its exit code, -1 if a signal killed it.
func (p *process) wait() int {
	p.t.Helper()
	ended := make(chan error, 1)
	go func() {
		io.Copy(io.Discard, p.out)
		ended <- p.cmd.Wait()
	}()
	defer waittest.LogIfFailed(p.t, func() string { return "standard error:\n" + p.stderrText() })
	var err error
	if p.long {
		limit := time.AfterFunc(5*time.Minute, p.kill) // so that the test fails rather than hangs
		err = <-ended
		limit.Stop()
	} else {
		err = waittest.Receive(p.t, "ibrun ends", ended)
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.t.Fatal(err)
	}
	return p.cmd.ProcessState.ExitCode()
}

// kill kills all processes of the job.
func (p *process) kill() {
	for _, pid := range p.alive() {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	}
}

// wantNoProcesses waits until ibrun and all of its descendants have exited.
func (p *process) wantNoProcesses() {
	p.t.Helper()
	p.eventually("processes remain", func() bool { return len(p.alive()) == 0 })
}

func (p *process) wantCode(want int, report string) {
	p.t.Helper()
	if wrong := p.ended(want, report); wrong != "" {
		p.t.Error(wrong)
	}
}

// ended waits until ibrun has exited, and returns what is wrong then: the exit code, a missing report on standard error, or
// processes that remain.
func (p *process) ended(want int, report string) (wrong string) {
	p.t.Helper()
	if got := p.wait(); got != want || !strings.Contains(p.stderrText(), report) {
		wrong = fmt.Sprintf("exit code %d, want %d and %q on standard error:\n%s", got, want, report, p.stderrText())
	}
	if pids := p.alive(); len(pids) > 0 { // ibrun exits last
		wrong += fmt.Sprintf("processes %v remain\n", pids)
	}
	return wrong
}

// eventually waits until a condition holds. what describes the state before.
func (p *process) eventually(what string, ok func() bool) {
	p.t.Helper()
	waittest.UntilNil(p.t, "still", func() error {
		if !ok() {
			return errors.New(what)
		}
		return nil
	})
}

// openFIFO makes a FIFO, and opens it for writing. Programs that run until it is closed find it by its name.
func openFIFO(t *testing.T) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0) // O_WRONLY waits for a reader
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// The jobs for tests that kill a process. Each starts two ranks, and prints that many lines.
var killJobs = []struct {
	name  string
	lines int
	args  []string
}{
	{"ranks", 2, []string{"rank", "sleep"}},
	{"behind sh", 2, []string{"sh", "-c", "rank sleep; true"}},
	{"behind setsid", 2, []string{"setsid", "rank", "sleep"}},
	{"behind setsid and fork", 2, []string{"sh", "-c", "setsid rank sleep & wait"}},
	{"with orphans", 4, []string{"rank", "orphan"}},
}

func TestKillIbrun(t *testing.T) {
	t.Parallel()
	for _, j := range killJobs {
		t.Run(j.name, func(t *testing.T) {
			p := startJob(t, j.lines, append([]string{"-n", "2"}, j.args...)...)
			p.signal(p.cmd.Process.Pid, syscall.SIGKILL)
			began := time.Now()
			p.wait()
			p.wantNoProcesses()
			t.Logf("no process remained after %v", time.Since(began))
		})
	}
}

func TestKillAgent(t *testing.T) {
	t.Parallel()
	for _, j := range killJobs {
		t.Run(j.name, func(t *testing.T) {
			p := startJob(t, j.lines, append([]string{"-n", "2"}, j.args...)...)
			p.signal(p.agent(), syscall.SIGKILL)
			p.wantCode(1, "was killed by signal 9 (SIGKILL), and the ranks with it\n")
		})
	}
}

// agent returns the parent of the ranks.
func (p *process) agent() int { return p.part("agent") }

// watcher returns the child of ibrun.
func (p *process) watcher() int { return p.part("watch") }

// part returns the process that ibrun has started as "ibrun NAME".
func (p *process) part(name string) int {
	p.t.Helper()
	pid := p.partOrNone(name)
	if pid == 0 {
		p.t.Fatal("there is no process ibrun " + name)
	}
	return pid
}

// partOrNone is part, but returns 0 if there is no such process.
func (p *process) partOrNone(name string) int {
	p.t.Helper()
	for _, pid := range p.alive() {
		if args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && string(args) == "ibrun\x00"+name+"\x00" {
			return pid
		}
	}
	return 0
}

func TestKillRank(t *testing.T) {
	t.Parallel()
	for _, j := range killJobs[:1] {
		p := startJob(t, j.lines, append([]string{"-n", "2"}, j.args...)...)
		victim := p.pids[1]
		began := time.Now()
		p.signal(victim, syscall.SIGKILL)
		p.wantCode(137, fmt.Sprintf("(pid %d) was killed by signal 9 (SIGKILL)\n", victim))
		t.Logf("the job ended after %v", time.Since(began))
	}
}

// The rank that failed first is named, even if another rank fails or aborts as soon as it notices. IBRUN_SOAK=1 tries it more
// often.
func TestFirstInTime(t *testing.T) {
	t.Parallel()
	for _, does := range []string{"follow", "abort-after"} {
		for range soaktest.Choose(20, 3) {
			fifo := filepath.Join(t.TempDir(), "fifo")
			if err := syscall.Mkfifo(fifo, 0o600); err != nil {
				t.Fatal(err)
			}
			p := startJob(t, 0, "-n", "1", "rank", does, fifo, ":", "-n", "1", "rank", "lead", fifo)
			p.wantCode(3, "rank 1 on")
		}
	}
}

func TestNoProcessesAfterSuccess(t *testing.T) {
	t.Parallel()
	tmp := t.TempDir()
	cmd := exec.Command("ibrun", "-n", "2", "rank", "orphan", "and leave")
	cmd.Env = []string{"TMPDIR=" + tmp}
	p := startCommand(t, 2, cmd)
	p.wantCode(0, "")
	if files, err := os.ReadDir(tmp); err != nil || len(files) > 0 {
		t.Errorf("files in TMPDIR: %v, %v", files, err)
	}
}

func TestEndSignals(t *testing.T) {
	t.Parallel()
	p := startJob(t, 2, "--grace", "1m", "-n", "2", "rank", "patient")
	p.signal(p.cmd.Process.Pid, syscall.SIGINT)
	if line := p.line(); line != "received interrupt\n" {
		t.Errorf("a rank wrote %q", line)
	}
	p.wantCode(0, "a second signal kills them")

	p = startJob(t, 2, "-n", "2", "rank", "sleep")
	p.signal(p.cmd.Process.Pid, syscall.SIGTERM)
	p.wantCode(143, "was killed by signal 15 (SIGTERM)")

	p = startJob(t, 2, "--grace", "1m", "-n", "2", "rank", "stubborn")
	p.signal(p.cmd.Process.Pid, syscall.SIGINT)
	p.eventually("ibrun prints nothing", func() bool { return strings.Contains(p.stderrText(), "a second signal") })
	p.signal(p.cmd.Process.Pid, syscall.SIGINT)
	p.wantCode(130, "did not end when asked")
}

func TestSignalsArePassedOn(t *testing.T) {
	t.Parallel()
	p := startJob(t, 2, "-n", "2", "sh", "-c", "trap '' USR2; setsid rank patient & wait") // with other processes in between
	p.signal(p.cmd.Process.Pid, syscall.SIGUSR2)
	for range 2 {
		if line := p.line(); line != "received user defined signal 2\n" {
			t.Errorf("a rank wrote %q", line)
		}
	}
	p.wait()
}

func TestRankStopsAndContinues(t *testing.T) {
	t.Parallel()
	p := startJob(t, 2, "-n", "2", "rank", "patient")
	p.signal(p.pids[0], syscall.SIGSTOP)
	p.signal(p.cmd.Process.Pid, syscall.SIGUSR2)
	if line := p.line(); line != "received user defined signal 2\n" {
		t.Errorf("a rank wrote %q", line)
	}
	if len(p.alive()) < 3 {
		t.Error("the job did not wait for the rank that stands still")
	}
	p.signal(p.pids[0], syscall.SIGCONT)
	p.wantCode(0, "")
}

func TestIbrunStopsAndContinues(t *testing.T) {
	t.Parallel()
	p := startJob(t, 2, "-n", "2", "rank", "sleep")
	all := append([]int{p.cmd.Process.Pid}, p.pids...)
	stopped := func(want bool) func() bool {
		return func() bool {
			for _, pid := range all {
				if state, _ := p.stat(pid); (state == "T") != want {
					return false
				}
			}
			return true
		}
	}
	p.signal(p.cmd.Process.Pid, syscall.SIGTSTP)
	p.eventually("ibrun and its ranks do not stop", stopped(true))
	p.signal(p.cmd.Process.Pid, syscall.SIGCONT)
	p.eventually("ibrun and its ranks do not continue", stopped(false))
	p.signal(p.pids[0], syscall.SIGKILL)
	p.wantCode(137, "SIGKILL")
}

// A rank whose output is not read blocks, and no memory fills up meanwhile.
func TestOutputBlocks(t *testing.T) {
	p := startJob(t, 0, "-n", "1", "rank", "flood", "1000000000")
	rank := func() int {
		for _, pid := range p.alive() {
			if args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && strings.HasPrefix(string(args), "rank\x00") {
				return pid
			}
		}
		return 0
	}
	p.eventually("there is no rank", func() bool { return rank() != 0 })
	pid, written := rank(), 0
	p.eventually("the rank never waits", func() bool {
		last := written
		waittest.Elapse(t, 50*time.Millisecond, "a rank that does not wait writes something")
		_, written = p.bytesMoved(pid)
		return written > 0 && written == last
	})
	if written > 4<<20 {
		t.Errorf("%d bytes were read from the rank although its output is not read", written)
	}
	if err := p.cmd.Process.Signal(syscall.Signal(0)); err != nil {
		t.Fatal(err)
	}
	p.signal(pid, syscall.SIGKILL)
	p.wantCode(137, "SIGKILL")
}

// A second Ctrl-C ends a job whose output is not read, although more output is waiting.
func TestKillWhileOutputIsStuck(t *testing.T) {
	t.Parallel()
	p := startJob(t, 0, "-n", "2", "sh", "-c", "trap '' INT; yes; true")
	p.eventually("nothing was started", func() bool { return len(p.alive()) >= 7 })
	p.signal(p.cmd.Process.Pid, syscall.SIGINT)
	p.eventually("ibrun prints nothing", func() bool { return strings.Contains(p.stderrText(), "a second signal") })
	p.signal(p.cmd.Process.Pid, syscall.SIGINT)
	if err := p.cmd.Wait(); p.cmd.ProcessState.ExitCode() != 130 {
		t.Errorf("ibrun ended with %v, want 130:\n%s", err, p.stderrText())
	}
	p.wantNoProcesses()
}

// unprivileged makes a command run as a user with few permissions, with a copy of ibrun and rank that this user can execute.
func unprivileged(t *testing.T, cmd *exec.Cmd) *exec.Cmd {
	t.Helper()
	dir, err := os.MkdirTemp("", "ibrun-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	syscall.ForkLock.RLock() // a process that is started meanwhile would have the file open for writing, so nobody could execute it
	err = os.WriteFile(filepath.Join(dir, "ibrun"), self, 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(dir, "ibrun"), filepath.Join(dir, "rank")); err != nil {
		t.Fatal(err)
	}
	cmd.Path, cmd.Dir = filepath.Join(dir, cmd.Args[0]), "/"
	cmd.Env = append(cmd.Env, "PATH="+dir+":"+os.Getenv("PATH"), "HOME="+dir)
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	return cmd
}

// For a user who may not create control groups, the search through the process tree is sufficient.
func TestWithoutControlGroup(t *testing.T) {
	t.Parallel()
	for _, victim := range []string{"ibrun", "agent"} {
		p := startCommand(t, 4, unprivileged(t, exec.Command("ibrun", "-n", "2", "rank", "orphan")))
		if victim == "agent" {
			p.signal(p.agent(), syscall.SIGKILL)
		} else {
			p.signal(p.cmd.Process.Pid, syscall.SIGKILL)
		}
		p.wait()
		p.wantNoProcesses()
	}
}

func TestUnreadableDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	closed := filepath.Join(dir, "closed")
	if err := os.Mkdir(closed, 0); err != nil {
		t.Fatal(err)
	}
	for path := dir; path != os.TempDir() && path != "/"; path = filepath.Dir(path) {
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, program := range []string{closed, closed + "/program"} {
		p := startCommand(t, 0, unprivileged(t, exec.Command("ibrun", "-n", "2", program)))
		p.wantCode(126, "permission denied")
	}
}
