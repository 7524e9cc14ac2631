package clustertest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ibrun/ibrun/internal/waittest"
)

// markName is the variable that all processes of a job have in their environment, on whatever node.
const markName = "IBRUN_CLUSTER_TEST"

// jobs counts the jobs that have been started.
var jobs atomic.Int32

// job is a running command. Everything that it starts has its mark, and uses its directory for temporary files.
type job struct {
	t              *testing.T
	cmd            *exec.Cmd
	stdout, stderr text
	files          [2]string // where the output goes, if the command writes it to files
	mark           string
	tmp            string
	ended          chan struct{}
}

// text is what a job has written so far.
type text struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (x *text) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.buf.Write(p)
}

func (x *text) String() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.buf.String()
}

// out returns what the job has written to standard output so far.
func (j *job) out() string { return j.stdout.String() + j.file(0) }

// err returns what the job has written to standard error so far.
func (j *job) err() string { return j.stderr.String() + j.file(1) }

func (j *job) file(i int) string {
	text, _ := os.ReadFile(j.files[i]) // it may not exist yet
	return string(text)
}

// newJob prepares a command. The caller may change cmd before it calls start.
func newJob(t *testing.T, args ...string) *job {
	t.Helper()
	j := &job{t: t, mark: fmt.Sprintf("%d.%d", os.Getpid(), jobs.Add(1)), ended: make(chan struct{})}
	j.tmp = filepath.Join(filepath.Dir(programs), j.mark)
	for _, dir := range []string{"", "tmp", "run"} {
		if err := os.Mkdir(filepath.Join(j.tmp, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	j.cmd = exec.Command(args[0], args[1:]...)
	j.cmd.Stdout, j.cmd.Stderr = &j.stdout, &j.stderr
	j.cmd.Env = append(os.Environ(), j.variables()...)
	j.cmd.WaitDelay = 10 * time.Second // what is left may hold the pipes open
	return j
}

// variables returns the environment of the job's own.
func (j *job) variables() []string {
	return []string{markName + "=" + j.mark, "TMPDIR=" + filepath.Join(j.tmp, "tmp"),
		"XDG_RUNTIME_DIR=" + filepath.Join(j.tmp, "run")}
}

// start starts the command.
func (j *job) start() *job {
	j.t.Helper()
	if err := j.cmd.Start(); err != nil {
		j.t.Fatal(err)
	}
	go func() {
		_ = j.cmd.Wait() // its exit code is tested
		close(j.ended)
	}()
	j.t.Cleanup(func() {
		for _, pid := range j.alive() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		<-j.ended
	})
	return j
}

// wait blocks until the command has exited, and returns its exit code.
func (j *job) wait() int {
	j.t.Helper()
	defer func() {
		if !j.hasEnded() {
			j.t.Logf("%q does not end; it wrote\n%s%s", j.cmd.Args, j.out(), j.err())
		}
	}()
	waittest.Receive(j.t, "the command ends", j.ended)
	return j.cmd.ProcessState.ExitCode()
}

// hasEnded reports whether the command has exited.
func (j *job) hasEnded() bool {
	select {
	case <-j.ended:
		return true
	default:
		return false
	}
}

// want checks the exit code, and that standard error has all of the texts. Nothing of the job may remain.
func (j *job) want(code int, texts ...string) *job {
	j.t.Helper()
	if got := j.wait(); got != code {
		j.t.Errorf("%q exited with code %d, want %d:\n%s", j.cmd.Args, got, code, j.err())
	}
	for _, text := range texts {
		if !strings.Contains(j.err(), text) {
			j.t.Errorf("%q wrote to standard error\n%swhich does not contain %q", j.cmd.Args, j.err(), text)
		}
	}
	j.nothingLeft()
	return j
}

// wantLines checks the lines of standard output, in any order.
func (j *job) wantLines(want ...string) {
	j.t.Helper()
	got := strings.Split(strings.TrimSuffix(j.out(), "\n"), "\n")
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		j.t.Errorf("%q printed %q, want %q; on standard error:\n%s", j.cmd.Args, got, want, j.err())
	}
}

// wantPi checks that the job printed pi once.
func (j *job) wantPi() {
	j.t.Helper()
	if got := j.out(); !strings.HasPrefix(got, "pi = 3.14159265358") || strings.Count(got, "\n") != 1 {
		j.t.Errorf("%q printed %q, want pi once; on standard error:\n%s", j.cmd.Args, got, j.err())
	}
}

// alive returns the living processes with the mark.
func (j *job) alive() (pids []int) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		j.t.Fatal(err)
	}
	for _, dir := range dirs {
		if env, err := os.ReadFile(dir + "/environ"); err == nil && hasMark(env, j.mark) {
			pid, err := strconv.Atoi(filepath.Base(dir))
			if err != nil {
				j.t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}

func hasMark(environ []byte, mark string) bool {
	return slices.Contains(strings.Split(string(environ), "\x00"), markName+"="+mark)
}

// nothingLeft waits, after the end of a job, until none of its processes remains, and checks that no temporary file does.
func (j *job) nothingLeft() {
	j.t.Helper()
	j.noProcesses()
	for _, dir := range []string{"tmp", "run/ibrun"} {
		files, err := os.ReadDir(filepath.Join(j.tmp, dir))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			j.t.Fatal(err)
		}
		for _, f := range files {
			j.t.Errorf("a file remains in %s: %s", dir, f.Name())
		}
	}
}

// noProcesses waits, after the end of a job, until none of its processes remains. What is left by mistake
// runs longer than that, if the heartbeat is longer.
func (j *job) noProcesses() {
	j.t.Helper()
	waittest.UntilNil(j.t, "the end of all processes", func() (err error) {
		for _, pid := range j.alive() {
			err = errors.Join(err, fmt.Errorf("process %d remains: %q", pid, commandLine(pid)))
		}
		return err
	})
}

func commandLine(pid int) []string {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // it may have ended
	return strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
}

// find returns the living processes of the job that run a program, with these first arguments.
func (j *job) find(program string, args ...string) (pids []int) {
	for _, pid := range j.alive() {
		words := commandLine(pid)
		if filepath.Base(words[0]) == program && len(words) > len(args) && slices.Equal(words[1:len(args)+1], args) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// eventually waits until ok is true. what describes the state before. The job must not end before.
func (j *job) eventually(what string, ok func() bool) {
	j.t.Helper()
	waittest.UntilNil(j.t, "still", func() error {
		ended := j.hasEnded()
		switch {
		case ok():
			return nil
		case ended:
			j.t.Fatalf("%s, and %q has ended; it wrote\n%s%s", what, j.cmd.Args, j.out(), j.err())
		}
		return fmt.Errorf("%s; %q wrote\n%s%s", what, j.cmd.Args, j.out(), j.err())
	})
}

// wrote waits until the job has written that many lines that begin with prefix to standard output.
func (j *job) wrote(prefix string, lines int) {
	j.t.Helper()
	j.eventually(fmt.Sprintf("it does not write %q %d times", prefix, lines), func() bool {
		return strings.Count("\n"+j.out(), "\n"+prefix) >= lines
	})
}

// script writes an executable file for sh, or for the interpreter in its first line, and returns its path.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script")
	if !strings.HasPrefix(text, "#!") {
		text = "#!/bin/sh\n" + text
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}
