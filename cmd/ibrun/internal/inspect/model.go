package inspect

import (
	"context"

	"github.com/ibrun/ibrun/perf"
	"github.com/ibrun/ibrun/perf/jobs"
)

// Source returns the state of the ranks of a job. Its methods may be called from any goroutine.
type Source interface {
	// Job returns the job.
	Job() jobs.Job
	// Ranks samples all ranks and returns them in ascending order. It does not wait for ranks, and for other nodes only a short
	// time.
	Ranks(ctx context.Context) ([]jobs.Rank, error)
	// Snapshots returns the snapshots of the ranks on this node that have a record.
	Snapshots(ctx context.Context) ([]*perf.Snapshot, error)
	// Stacks returns the goroutine stacks of some ranks. Ranks that have not answered when ctx ends are missing.
	Stacks(ctx context.Context, ranks []int) (map[int]string, error)
}

// remoteSource is a source that queries the socket of a job.
type remoteSource struct{ job jobs.Job }

func (r remoteSource) Job() jobs.Job { return r.job }

func (r remoteSource) Ranks(ctx context.Context) ([]jobs.Rank, error) { return r.job.Ranks(ctx) }

func (r remoteSource) Snapshots(ctx context.Context) ([]*perf.Snapshot, error) {
	return r.job.Snapshots(ctx)
}

func (r remoteSource) Stacks(ctx context.Context, ranks []int) (map[int]string, error) {
	return r.job.Stacks(context.WithoutCancel(ctx), ranks) // the server has the same timeout
}
