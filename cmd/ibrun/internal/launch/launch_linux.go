package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/agent"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/coordinator"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/remote"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/watcher"
)

func supported() error { return nil }

// Agent runs the agent of a node and returns its exit code: see package agent. If a user has called it, errs gets the reason why
// that is wrong.
func Agent(errs io.Writer) int { return agent.Main(errs) }

// Watch runs the watcher of an ibrun and returns its exit code: see package watcher. errs is as for Agent.
func Watch(errs io.Writer) int { return watcher.Main(errs) }

// startedWatcher is the watcher that starts what this ibrun starts.
type startedWatcher struct{ *watcher.Watcher }

func startWatcher() (startedWatcher, error) {
	w, err := watcher.Start()
	return startedWatcher{w}, err
}

// removeAtDeath makes the watcher remove a folder if ibrun dies. An empty name means none.
func (w startedWatcher) removeAtDeath(dir string) {
	if dir != "" {
		w.RemoveAtDeath(watcher.Leftovers{Trees: []string{dir}})
	}
}

// startRemote starts the other nodes of a job. The caller must call end, with the time that they
// have to end by themselves.
func startRemote(o remote.Options) (events <-chan remote.Event, end func(limit time.Duration), err error) {
	w, err := watcher.Start()
	if err != nil {
		return nil, nil, err
	}
	starts := remote.Start(w, o)
	return starts.Events, func(limit time.Duration) {
		starts.Close(limit)
		_ = w.Close() // for what it has not ended nothing more can be done
	}, nil
}

// detachStreams returns the standard input and output of this process, which are not inherited by what it starts. In their place
// standard input is empty, and standard output is standard error.
func detachStreams() (in, out *os.File, err error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, nil, err
	}
	defer null.Close()
	if in, err = moveStream(0, int(null.Fd()), "standard input"); err == nil {
		out, err = moveStream(1, 2, "standard output")
	}
	// The ranks of this node must end in order although no process reads any more what this one writes. What it starts has the
	// default action.
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE)
	return in, out, err
}

// moveStream returns a file for what descriptor fd refers to, and makes fd refer to what by does.
func moveStream(fd, by int, name string) (*os.File, error) {
	moved, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	f := os.NewFile(uintptr(moved), name)
	return f, os.NewSyscallError("dup3", unix.Dup3(by, fd, 0))
}

// interruptTimeout is how long a build may take to end after it was interrupted.
const interruptTimeout = 2 * time.Second

// runBuild runs the go command, and interrupts it when ctx ends. If ibrun dies, the go command and what it has started are
// killed, and the work directories are removed.
func (w startedWatcher) runBuild(ctx context.Context, b *goCommand) error {
	w.RemoveAtDeath(watcher.Leftovers{Trees: b.work})
	devNull, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer devNull.Close()
	c, err := w.Run(watcher.Command{Path: b.path, Args: b.args, Dir: b.dir, Env: b.env, KilledTogether: true,
		Files: []uintptr{devNull.Fd(), b.output.Fd(), b.output.Fd()}})
	if err != nil {
		return err
	}
	var ended *watcher.Ended
	var interrupted <-chan time.Time
	for done := ctx.Done(); ended == nil; {
		select {
		case ended = <-c.Ended:
		case <-done:
			c.Signal(unix.SIGINT)
			done, interrupted = nil, time.After(interruptTimeout)
		case <-interrupted:
			w.Kill()
		case <-w.Lost:
			return errors.New(w.LostReason())
		}
	}
	switch ws := ended.Status; {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case ws.Signaled():
		return fmt.Errorf("it was killed by signal %d (%s)", ws.Signal(), unix.SignalName(ws.Signal()))
	case ws.ExitStatus() != 0:
		return fmt.Errorf("exit status %d", ws.ExitStatus())
	}
	return nil
}

func (w startedWatcher) runJob(c *coordinator.Cluster, where coordinator.Layout, t *protocol.Task,
	set *coordinator.RunSettings, s Streams) (int, error) {
	return coordinator.RunJob(w.Watcher, c, where, t, set, s)
}
