package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/ibrun/ibrun/perf"
	"github.com/ibrun/ibrun/perf/jobs"
)

// A controller looks at the only job of its user once a second, until it ends.
func Example() {
	ctx := context.Background()
	job, err := jobs.Find(ctx, "")
	if err != nil {
		log.Fatal(err)
	}
	for range time.Tick(time.Second) {
		ranks, err := job.Ranks(ctx)
		if errors.Is(err, jobs.ErrNotFound) {
			return // it has ended
		} else if err != nil {
			log.Fatal(err)
		}
		for _, r := range ranks {
			fmt.Println(r.Rank, r.State, r.Calls, "calls,", r.BytesOut, "bytes sent,", r.Done, "of", r.Total, "steps")
		}
	}
}

// Latencies by operation, of all ranks on this machine and all sizes of messages; and how long each rank has waited for others.
func ExampleJob_Snapshots() {
	ctx := context.Background()
	job, err := jobs.Find(ctx, "") // the only one; or a job id, or the process id of its ibrun
	if err != nil {
		log.Fatal(err)
	}
	ranks, err := job.Snapshots(ctx)
	if err != nil {
		log.Fatal(err) // jobs.ErrNotFound: it has ended
	}
	for _, o := range perf.MergeClasses(perf.MergeOps(ranks...)) {
		fmt.Println(o.Op, o.Calls, "calls,", o.Bytes, "bytes, 99th percentile", o.Latency.Quantile(0.99))
	}
	for _, s := range ranks {
		fmt.Println("rank", s.Rank, "has waited", s.Waiting, "of", s.Wall(time.Now()))
	}
}
