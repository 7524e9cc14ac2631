package monitor

import (
	"os"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/exporter"
	"github.com/ibrun/ibrun/perf/prom"
)

// ExportMetrics serves Prometheus metrics about the ranks of this node if the user asked for them. An error does not end the
// job. It passes the files that it has created, and which remain if ibrun is killed, to created. The caller must call end.
func (m *Monitor) ExportMetrics(o *cli.Options, created func(files []string)) (end func()) {
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
	report := func(text string) { m.streams.Printf("%s", text) }
	e, err := exporter.Start(exporter.Options{Address: o.Metrics, DiscoveryFile: o.MetricsSD}, n, report)
	if err != nil {
		m.streams.Printf("no metrics of this job: %v", err)
		return none
	}
	created(e.Files())
	m.streams.Printf("metrics are at %s", e.URL())
	return func() {
		if err := e.Close(); err != nil {
			m.streams.Printf("metrics: %v", err)
		}
	}
}
