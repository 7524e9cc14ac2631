package launch

import (
	"os"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/exporter"
	"github.com/ibrun/ibrun/perf"
	"github.com/ibrun/ibrun/perf/prom"
)

// rankSample is a rank of this node as its page and its end tell.
type rankSample struct {
	rank     int
	snapshot *perf.Snapshot // nil: nobody has written the page, or err
	err      error
	exited   bool
}

// samples looks at all ranks of this node, in their order. Any goroutine may call it, until close.
func (l *localAgent) samples() []rankSample {
	pages := l.perfMem.records()
	all := make([]rankSample, len(pages))
	for i, p := range pages {
		all[i] = rankSample{l.task.Ranks[i].Rank, p.snapshot, p.err, l.exited[i].Load()}
	}
	return all
}

// markExited notes the death of a rank.
func (l *localAgent) markExited(rank int) {
	if i := l.task.localIndex(rank); i >= 0 {
		l.exited[i].Store(true)
	}
}

// export serves what the ranks here do, if that is wanted. The job does not depend on it.
func (l *localAgent) export(o *cli.Options) (end func()) {
	none := func() {}
	if o.Metrics == "" {
		return none
	}
	n := &prom.Node{Job: l.task.JobID, Name: l.task.Host, Root: os.DirFS("/"), Ranks: func() (all []prom.Rank) {
		for _, g := range l.samples() {
			all = append(all, prom.Rank{Rank: g.rank, Snapshot: g.snapshot, Err: g.err, Dead: g.exited})
		}
		return all
	}}
	tell := func(text string) { l.Say("%s", text) }
	e, err := exporter.Start(exporter.Options{Address: o.Metrics, Discovery: o.MetricsSD}, n, tell)
	if err != nil {
		l.Say("no metrics of this job: %v", err)
		return none
	}
	l.Say("metrics are at %s", e.URL())
	return func() {
		if err := e.Close(); err != nil {
			l.Say("metrics: %v", err)
		}
	}
}
