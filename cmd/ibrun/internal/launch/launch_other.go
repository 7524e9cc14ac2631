//go:build !linux

package launch

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/coordinator"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/remote"
)

func supported() error {
	return exitcode.Errorf(exitcode.Failed,
		"starting ranks needs Linux (pidfd, subreaper, /proc); on this system package mpi/mpitest runs them as goroutines")
}

// Agent reports that this system has no agents, and returns the exit code for it.
func Agent(errs io.Writer) int {
	fmt.Fprintf(errs, "ibrun: %v\n", supported())
	return exitcode.Failed
}

func addressSpaceNote() string { return "" }

func checkLimits(int) error { return supported() }

// Watch reports that this system has no watchers, and returns the exit code for it.
func Watch(errs io.Writer) int { return Agent(errs) }

// ServeDebugger reports that this system has no ranks to debug, and returns the exit code for it.
func ServeDebugger(_ []string, errs io.Writer) int { return Agent(errs) }

func startRemote(remote.Options) (<-chan remote.Event, func(time.Duration), error) {
	return nil, nil, supported()
}

func detachStreams() (in, out *os.File, err error) { return nil, nil, supported() }

// copiedPrograms would copy programs.
type copiedPrograms struct{ watcher startedWatcher }

func (*copiedPrograms) obtain(*coordinator.Cluster, *job) ([]program, error) {
	return nil, supported()
}

func (*copiedPrograms) remove() {}

// startedWatcher would start processes.
type startedWatcher struct{}

func startWatcher() (startedWatcher, error) { return startedWatcher{}, supported() }

func (startedWatcher) Close() error { return nil }

func (startedWatcher) removeAtDeath(string) {}

func (startedWatcher) runBuild(context.Context, *goCommand) error { return supported() }

func (startedWatcher) runJob(*coordinator.Cluster, coordinator.Layout, *protocol.Task, *coordinator.RunSettings, Streams) (int,
	error) {
	return 0, supported()
}
