package watcher

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/internal/waittest"
)

// TestMain makes this binary act as watcher: [Start] executes it again.
func TestMain(m *testing.M) {
	if os.Getenv("WATCH_IS_UNKNOWN") != "" && len(os.Args) == 2 {
		os.Unsetenv("WATCH_IS_UNKNOWN") // if Start does not refuse, it starts only one
		if w, err := Start(); err == nil {
			w.Close()
			os.Exit(0)
		}
		os.Exit(refused)
	}
	if len(os.Args) == 2 && os.Args[0] == "ibrun" && os.Args[1] == "watch" {
		os.Exit(Main(os.Stderr))
	}
	os.Exit(m.Run())
}

// refused is the exit code of a program that was started as watcher and could not start one.
const refused = 77

// A program that does not know the command "watch", and starts a watcher whatever its arguments are, does so only once.
func TestNoRecursion(t *testing.T) {
	t.Setenv("WATCH_IS_UNKNOWN", "1")
	w, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	<-w.Lost
	if code := w.status.ExitStatus(); code != refused {
		t.Errorf("the program exited with %d, want %d", code, refused)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

// A watcher that was stopped continues when it is needed.
func TestStoppedWatcher(t *testing.T) {
	w := start(t)
	stop := func() {
		t.Helper()
		if err := unix.Kill(w.pid, unix.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	c, out := run(t, w, "echo; sleep 1000")
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	stop()
	w.Kill()
	wantEnded(t, c)
	wantEOF(t, out)
	stop()
	if err := w.Close(); err != nil || !w.status.Exited() {
		t.Errorf("Close returned %v; the watcher ended with %v, and should have exited by itself", err, w.status)
	}
}

func start(t *testing.T) *Watcher {
	t.Helper()
	w, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

// run starts a shell command whose standard output is a pipe, and returns the pipe.
func run(t *testing.T, w *Watcher, command string) (*Running, *os.File) {
	t.Helper()
	r, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	t.Cleanup(func() { r.Close() })
	c, err := w.Run(Command{Path: "/bin/sh", Args: []string{"sh", "-c", command}, Env: []string{"WORD=ready"},
		Files: []uintptr{^uintptr(0), out.Fd(), 2}})
	if err != nil {
		t.Fatal(err)
	}
	return c, r
}

func wantEnded(t *testing.T, c *Running) *Ended {
	t.Helper()
	return waittest.Receive(t, "the command ends", c.Ended)
}

// wantEOF fails unless every process has closed the other end of the pipe.
func wantEOF(t *testing.T, r *os.File) {
	t.Helper()
	waittest.Bound(t, r)
	for {
		n, err := r.Read(make([]byte, 100))
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("a process holds the pipe")
		}
		if n == 0 {
			return
		}
	}
}

// The watcher starts one command after the other, reports their exit statuses, and kills what they leave.
func TestRun(t *testing.T) {
	w := start(t)
	for code := range 3 {
		c, out := run(t, w, "setsid sleep 1000 & exit "+string(rune('0'+code)))
		if e := wantEnded(t, c); e.Status.ExitStatus() != code || len(e.Stuck) > 0 || e.Err != "" {
			t.Errorf("the command ended with %+v, want status %d", e, code)
		}
		wantEOF(t, out)
	}
	if _, err := w.Run(Command{Path: "/nonexistent", Args: []string{"x"}}); !errors.Is(err, unix.ENOENT) {
		t.Errorf("a program that does not exist: %v", err)
	}
	c, out := run(t, w, "echo $WORD; exec sleep 1000")
	if _, err := out.Read(make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	c.Signal(unix.SIGINT)
	if e := wantEnded(t, c); e.Status.Signal() != unix.SIGINT {
		t.Errorf("the command ended with %+v, want SIGINT", e)
	}
	c, out = run(t, w, "sleep 1000 & wait")
	w.Kill()
	if e := wantEnded(t, c); e.Status.Signal() != unix.SIGKILL {
		t.Errorf("the command ended with %+v, want SIGKILL", e)
	}
	wantEOF(t, out)
}

// Several commands run at a time. The end of one does not concern the others, and what it leaves is killed with the last one.
func TestRunSeveral(t *testing.T) {
	w := start(t)
	var commands []*Running
	var outputs []*os.File
	for range 3 {
		c, out := run(t, w, "setsid sleep 1000 & echo $WORD; exec sleep 1000")
		commands, outputs = append(commands, c), append(outputs, out)
	}
	for code := range 5 {
		c, _ := run(t, w, "exit "+string(rune('0'+code)))
		if e := wantEnded(t, c); e.Status.ExitStatus() != code {
			t.Errorf("the command ended with %+v, want status %d", e, code)
		}
		if c.Release(); c.PIDFD != -1 {
			t.Errorf("descriptor %d of the command is open after Release", c.PIDFD)
		}
		c.Release() // does nothing
	}
	commands[1].Kill()
	if e := wantEnded(t, commands[1]); e.Status.Signal() != unix.SIGKILL {
		t.Errorf("the command ended with %+v, want SIGKILL", e)
	}
	commands[0].Signal(unix.SIGTERM)
	if e := wantEnded(t, commands[0]); e.Status.Signal() != unix.SIGTERM {
		t.Errorf("the command ended with %+v, want SIGTERM", e)
	}
	commands[2].Kill()
	wantEnded(t, commands[2])
	for _, out := range outputs { // also what has left the sessions
		wantEOF(t, out)
	}
	c, _ := run(t, w, "exit 3")
	if e := wantEnded(t, c); e.Status.ExitStatus() != 3 {
		t.Errorf("a command after the others: %+v", e)
	}
}

// A command does not inherit variables with one of the given prefixes, and its own variables replace those of ibrun.
func TestEnvironment(t *testing.T) {
	c := &Command{Env: []string{"A_1=mine", "B=2"}, Unset: []string{"A_", "CD"}}
	got := c.environment([]string{"A_1=x", "A=y", "CDE=z", "A_2=w", "E=v"})
	if want := []string{"A_1=mine", "B=2", "A=y", "E=v"}; !slices.Equal(got, want) {
		t.Errorf("the environment is %q, want %q", got, want)
	}
}

// Close ends what runs, and removes what is registered. A directory that is used remains, and so does a file of the user that
// has the name of a directory.
func TestClose(t *testing.T) {
	dir := t.TempDir()
	tree, file, used := filepath.Join(dir, "tree"), filepath.Join(dir, "file"), filepath.Join(dir, "used")
	empty, mine := filepath.Join(dir, "empty"), filepath.Join(dir, "mine")
	if err := errors.Join(os.MkdirAll(filepath.Join(tree, "a/b"), 0o700), os.MkdirAll(filepath.Join(used, "c"), 0o700),
		os.Mkdir(empty, 0o700), os.WriteFile(file, nil, 0o600), os.WriteFile(mine, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	w := start(t)
	w.RemoveAtDeath(Leftovers{Trees: []string{tree}, Files: []string{file, filepath.Join(dir, "none")},
		Dirs: []string{used, empty, mine}})
	_, out := run(t, w, "trap '' TERM INT; setsid sleep 1000 & sleep 1000")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	wantEOF(t, out)
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || !slices.Equal(left, []string{mine, used}) {
		t.Errorf("left: %v, %v; want %s and %s", left, err, mine, used)
	}
}

// If the watcher dies, its owner learns how.
func TestLost(t *testing.T) {
	w := start(t)
	c, out := run(t, w, "exec sleep 1000")
	if err := syscall.Kill(w.pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waittest.Receive(t, "the death of the watcher is noticed", w.Lost)
	if w.status.Signal() != unix.SIGKILL {
		t.Errorf("status %v", w.status)
	}
	if _, err := w.Run(Command{Path: "/bin/true", Args: []string{"true"}}); err == nil {
		t.Error("a dead watcher has started a command")
	}
	if err := unix.PidfdSendSignal(c.PIDFD, unix.SIGKILL, nil, 0); err != nil {
		t.Error(err)
	}
	wantEOF(t, out)
}
