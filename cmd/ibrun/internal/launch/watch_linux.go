package launch

import (
	"os"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/exporter"
	"github.com/ibrun/ibrun/perf"
	"github.com/ibrun/ibrun/perf/prom"
)

// Sample is a rank of this node as its page and its end tell.
type Sample struct {
	Rank     int
	Snapshot *perf.Snapshot // nil: nobody has written the page, or err
	Err      error
	Exited   bool
}

// Samples looks at all ranks of this node, in their order. Any goroutine may call it, until close.
func (m *Monitor) Samples() []Sample {
	pages := m.mem.Records()
	all := make([]Sample, len(pages))
	for i, p := range pages {
		all[i] = Sample{m.task.Ranks[i].Rank, p.Snapshot, p.Err, m.exited[i].Load()}
	}
	return all
}

// MarkExited notes the death of a rank.
func (m *Monitor) MarkExited(rank int) {
	if i := m.task.LocalIndex(rank); i >= 0 {
		m.exited[i].Store(true)
	}
}

// ExportMetrics serves what the ranks here do, if that is wanted. The job does not depend on it.
func (m *Monitor) ExportMetrics(o *cli.Options) (end func()) {
	none := func() {}
	if o.Metrics == "" {
		return none
	}
	n := &prom.Node{Job: m.task.JobID, Name: m.task.Host, Root: os.DirFS("/"), Ranks: func() (all []prom.Rank) {
		for _, g := range m.Samples() {
			all = append(all, prom.Rank{Rank: g.Rank, Snapshot: g.Snapshot, Err: g.Err, Dead: g.Exited})
		}
		return all
	}}
	tell := func(text string) { m.streams.Say("%s", text) }
	e, err := exporter.Start(exporter.Options{Address: o.Metrics, Discovery: o.MetricsSD}, n, tell)
	if err != nil {
		m.streams.Say("no metrics of this job: %v", err)
		return none
	}
	m.streams.Say("metrics are at %s", e.URL())
	return func() {
		if err := e.Close(); err != nil {
			m.streams.Say("metrics: %v", err)
		}
	}
}
