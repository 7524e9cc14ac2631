package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ibrun/ibrun/internal/jobsocket"
	"github.com/ibrun/ibrun/perf"
)

// Errors of this package, in addition to those of the context, of system calls, and [*VersionError].
var (
	// ErrNotFound is returned if no such job runs on this machine, or if it has ended.
	ErrNotFound = errors.New("no such job on this machine")
	// ErrAmbiguous is returned if the beginning of an id is that of several jobs.
	ErrAmbiguous = errors.New("several jobs match")
	// ErrRefused is returned for a socket or directory that belongs to another user, or that others may use.
	ErrRefused = jobsocket.ErrRefused
	// ErrNoAnswer is returned if the ibrun of a job does not answer in time: it may be stopped.
	ErrNoAnswer = errors.New("does not answer; it may be stopped")
	// ErrMessage is returned if what serves a socket does not use the protocol of ibrun.
	ErrMessage = jobsocket.ErrMessage
)

// VersionError is returned if the ibrun of a job is of another version, whose counters this one cannot read.
type VersionError struct {
	Job       string // its id
	Got, Want uint64
}

// Error returns both versions and the remedy.
func (e *VersionError) Error() string {
	return fmt.Sprintf("the ibrun of job %s has version %d of the protocol or of the counters, this program has version %d: "+
		"build both from one version", e.Job, e.Got, e.Want)
}

// List returns the jobs of this user whose ibrun runs on this machine, the oldest first. If some could not be queried, it returns
// an error in addition to the other jobs. It removes the sockets of ibruns that were killed. A job has one entry for each of its
// ibruns on this machine.
func List(ctx context.Context) ([]Job, error) { return list(ctx) }

// Find returns the job with this id, the only one whose id begins so, or the one whose ibrun has this process id. An empty name
// is the only job. Jobs that could not be queried are ignored if there is a match. Errors are ErrNotFound, ErrAmbiguous, and
// those of List.
func Find(ctx context.Context, name string) (Job, error) {
	all, err := list(ctx)
	job, errSelect := Select(all, name)
	if errSelect != nil {
		return Job{}, errors.Join(errSelect, err)
	}
	return job, nil
}

// Select is Find among jobs that List has returned. If several ibruns of one job run on this machine, it returns the first, since
// each of them knows the ranks of all nodes.
func Select(all []Job, name string) (Job, error) {
	var found []Job
	var names []string
	for _, j := range all {
		another := slices.ContainsFunc(found, func(f Job) bool { return f.ID == j.ID })
		if !another && strings.HasPrefix(j.ID, name) || name == strconv.Itoa(j.PID) {
			found = append(found, j)
			names = append(names, fmt.Sprintf("%s (process %d)", j.ID, j.PID))
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return Job{}, fmt.Errorf("%w: %s", ErrAmbiguous, strings.Join(names, ", "))
	case name != "":
		return Job{}, fmt.Errorf("%w: %s; ibrun ps lists your jobs", ErrNotFound, name)
	}
	return Job{}, fmt.Errorf("%w: you have none", ErrNotFound)
}

// Ranks samples all ranks of the job and returns them in ascending order. Ranks on a node that does not answer within a second
// are Unreachable.
func (j Job) Ranks(ctx context.Context) ([]Rank, error) {
	a, err := j.query(ctx, &jobsocket.Request{Ranks: true})
	if err != nil {
		return nil, err
	}
	return a.Ranks, nil
}

// Snapshots reads all counters of the ranks on this node, in ascending order of the ranks. Ranks that have no record are missing:
// those that are Starting, or that have an Error in Ranks.
func (j Job) Snapshots(ctx context.Context) ([]*perf.Snapshot, error) {
	a, err := j.query(ctx, &jobsocket.Request{Snapshots: true})
	if err != nil {
		return nil, err
	}
	return a.Snapshots, nil
}

// Stacks returns the goroutine stacks of some ranks, as the Go runtime prints them. Ranks that have not answered within a second
// are missing.
func (j Job) Stacks(ctx context.Context, ranks []int) (map[int]string, error) {
	if len(ranks) == 0 {
		return nil, nil
	}
	a, err := j.query(ctx, &jobsocket.Request{Stacks: ranks})
	if err != nil {
		return nil, err
	}
	return a.Stacks, nil
}
