package main

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/perf/jobs"
)

// echoes reports whether the terminal collects lines and echoes what is typed, as it does for a shell.
func (v *terminalView) echoes() bool {
	v.t.Helper()
	mode, err := unix.IoctlGetTermios(int(v.master.Fd()), unix.TCGETS)
	if err != nil {
		v.t.Fatal(err)
	}
	return mode.Lflag&(unix.ICANON|unix.ECHO) == unix.ICANON|unix.ECHO
}

// topEnding is a way in which ibrun top ends.
type topEnding struct {
	keys   string
	signal syscall.Signal // sent instead of keys
	want   syscall.Signal // that ends it; 0: it exits with 0
}

// topJob is a job of its own runtime directory: ibrun top waits for all jobs of a directory.
type topJob struct{ pid, dir string }

// command returns a command that runs ibrun top.
func (j *topJob) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "IBRUN_RUNTIME_DIR="+j.dir)
	return cmd
}

// test runs ibrun top for a job. It reports false if the job has not answered ibrun top in time.
func (c topEnding) test(t *testing.T, j *topJob) (answered bool) {
	t.Helper()
	cmd := j.command("ibrun", "top", "--interval", "100ms", j.pid)
	v := startInTerminal(t, cmd)
	v.want("UNEXP", jobs.ErrNoAnswer.Error())
	echoed := v.echoes()
	if c.signal != 0 {
		if err := cmd.Process.Signal(c.signal); err != nil {
			t.Fatal(err)
		}
	}
	v.write(c.keys)
	cmd.Wait()
	<-v.ended
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.ExitStatus() == 1 && v.shows(jobs.ErrNoAnswer.Error()) {
		return false
	}
	if echoed {
		t.Error("the terminal echoes what is typed")
	}
	if c.want != 0 && !(status.Signaled() && status.Signal() == c.want) || c.want == 0 && status != 0 {
		t.Errorf("it ended with status %#x", status)
	}
	if !v.echoes() {
		t.Error("the terminal does not echo what is typed")
	}
	return true
}

// testTopStopped stops and continues ibrun top for a job. It reports false if the job has not answered ibrun top in time.
func testTopStopped(t *testing.T, j *topJob) (answered bool) {
	t.Helper()
	v := startInTerminal(t, j.command("bash", "-c", `set -m; ibrun top --interval 100ms `+j.pid+`
echo stopped; read -r line; fg >/dev/null; echo ended`))
	v.want("UNEXP", jobs.ErrNoAnswer.Error())
	v.write("\x1a")
	v.want("stopped")
	if v.shows(jobs.ErrNoAnswer.Error()) {
		return false
	}
	if !v.echoes() {
		t.Error("stopped: the terminal does not echo what is typed")
	}
	v.write("go on\n")
	(&process{t: t}).eventually("it has not continued", func() bool { return !v.echoes() || v.shows(jobs.ErrNoAnswer.Error()) })
	v.write("q")
	v.want("ended")
	if !v.echoes() {
		t.Error("ended: the terminal does not echo what is typed")
	}
	return !v.shows(jobs.ErrNoAnswer.Error())
}

// untilAnswered tries a test again while it reports that a job has not answered in time.
func untilAnswered(t *testing.T, test func() bool) {
	t.Helper()
	(&process{t: t}).eventually("the job never answers in time", test)
}

// TestTopEnds: the key q ends ibrun top, as signals do. The terminal has its own mode again afterwards, also while ibrun top is
// stopped.
func TestTopEnds(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("ibrun", "-n", "1", "sleep", "1000")
	j := &topJob{dir: inRuntimeDir(t, cmd)}
	job := startCommand(t, 0, cmd)
	j.pid = strconv.Itoa(job.cmd.Process.Pid)
	job.eventually("no job", func() bool { return j.command("ibrun", "top", "--once", "--interval", "100ms", j.pid).Run() == nil })
	for name, c := range map[string]topEnding{
		"q": {keys: "q"}, "other keys": {keys: "x\nQ"}, "SIGINT": {keys: "\x03", want: syscall.SIGINT},
		"SIGTERM": {signal: syscall.SIGTERM, want: syscall.SIGTERM}, "SIGHUP": {signal: syscall.SIGHUP, want: syscall.SIGHUP},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			untilAnswered(t, func() bool { return c.test(t, j) })
		})
	}
	t.Run("stopped", func(t *testing.T) {
		t.Parallel()
		untilAnswered(t, func() bool { return testTopStopped(t, j) })
	})
}
