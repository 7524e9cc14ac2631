package launch

import (
	"os"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/exporter"
	"github.com/ibrun/ibrun/perf"
	"github.com/ibrun/ibrun/perf/prom"
)

// glance is a rank of this node as its page and its end tell.
type glance struct {
	rank     int
	snapshot *perf.Snapshot // nil: nobody has written the page, or err
	err      error
	dead     bool
}

// glances looks at all ranks of this node, in their order. Any goroutine may call it, until close.
func (l *local) glances() []glance {
	pages := l.pages.look()
	all := make([]glance, len(pages))
	for i, p := range pages {
		all[i] = glance{l.t.Ranks[i].Rank, p.snapshot, p.err, l.exited[i].Load()}
	}
	return all
}

// exits notes the death of a rank.
func (l *local) exits(rank int) {
	if i := l.t.local(rank); i >= 0 {
		l.exited[i].Store(true)
	}
}

// export serves what the ranks here do, if that is wanted. The job does not depend on it.
func (l *local) export(o *cli.Options) (end func()) {
	none := func() {}
	if o.Metrics == "" {
		return none
	}
	n := &prom.Node{Job: l.t.JobID, Name: l.t.Host, Root: os.DirFS("/"), Ranks: func() (all []prom.Rank) {
		for _, g := range l.glances() {
			all = append(all, prom.Rank{Rank: g.rank, Snapshot: g.snapshot, Err: g.err, Dead: g.dead})
		}
		return all
	}}
	tell := func(text string) { l.say("%s", text) }
	e, err := exporter.Start(exporter.Options{Address: o.Metrics, Discovery: o.MetricsSD}, n, tell)
	if err != nil {
		l.say("no metrics of this job: %v", err)
		return none
	}
	l.say("metrics are at %s", e.URL())
	return func() {
		if err := e.Close(); err != nil {
			l.say("metrics: %v", err)
		}
	}
}
