package monitor

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/exporter"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/proctree"
	"github.com/ibrun/ibrun/perf/prom"
)

// Metrics is the endpoint at which this node serves metrics. All methods accept a nil Metrics, which serves nothing.
type Metrics struct {
	monitor *Monitor
	server  *exporter.Exporter
	code    atomic.Int64 // the exit code of the job; -1 before its end
}

// ExportMetrics serves Prometheus metrics about the ranks of this node if the user asked for them. An error does not end the
// job. It passes the files that it has created, and which remain if ibrun is killed, to created. The caller must call Close.
func (m *Monitor) ExportMetrics(options exporter.Options, created func(files []string)) *Metrics {
	if options.Address == "" {
		return nil
	}
	x := &Metrics{monitor: m}
	x.code.Store(-1)
	n := &prom.Node{Job: m.task.JobID, Name: m.task.Host, Root: os.DirFS("/"), Ranks: m.promRanks, ExitCode: func() (int, bool) {
		code := x.code.Load()
		return int(code), code >= 0
	}}
	report := func(text string) { m.streams.Warn("metrics cannot be served to a client", console.Attrs{Text: text}) }
	var err error
	x.server, err = exporter.Start(options, n, report)
	if err != nil {
		m.streams.Warn("no metrics of this job", console.Attrs{Error: err.Error()})
		return nil
	}
	created(x.server.Files())
	if options.DiscoveryFile != "" && m.task.Nodes > 1 && m.task.Node == m.task.FirstNode && x.server.OnLoopback() {
		m.streams.Warn("only each node itself reaches its metrics", console.Attrs{Text: "each node serves its metrics on its " +
			"loopback address: for a Prometheus on another host write --metrics 0.0.0.0:PORT"})
	}
	m.streams.Info("metrics are served", console.Attrs{Address: x.server.URL(), Text: "metrics are at " + x.server.URL()})
	return x
}

// JobEnded puts the exit code of the job among the metrics. No rank runs any more.
func (x *Metrics) JobEnded(code int) {
	if x == nil {
		return
	}
	for i := range x.monitor.exited { // an agent that has died has reported no exits
		x.monitor.exited[i].Store(true)
	}
	x.code.Store(int64(code))
}

// LingerLimit returns how long Linger would wait at most if the job ended now.
func (x *Metrics) LingerLimit() time.Duration {
	if x == nil {
		return 0
	}
	return x.server.LingerLimit()
}

// Linger blocks until those who scrape know the exit code of the job: see [exporter.Exporter.Linger]. A signal of the user ends
// it, and Linger reports that. It may be called after JobEnded.
func (x *Metrics) Linger(s console.Streams) (stopped bool) {
	if x == nil {
		return false
	}
	signals := make(chan os.Signal, 1)
	console.Notify(signals, console.EndSignals())
	defer signal.Stop(signals)
	return x.server.Linger(signals, func(limit time.Duration) {
		limit = limit.Round(time.Millisecond)
		s.Info("the metrics stay until they are scraped", console.Attrs{LimitSeconds: limit.Seconds(),
			Text: fmt.Sprintf("the job has ended; the metrics stay until they are scraped, at most %v (--metrics-linger; a signal "+
				"ends it)", limit)})
	})
}

// Close ends the endpoint.
func (x *Metrics) Close() {
	if x == nil {
		return
	}
	if err := x.server.Close(); err != nil {
		x.monitor.streams.Warn("the endpoint of the metrics cannot be closed", console.Attrs{Error: err.Error(),
			Text: fmt.Sprintf("metrics: %v", err)})
	}
}

// promRanks returns the state of this node's ranks.
func (m *Monitor) promRanks() (all []prom.Rank) {
	pids := m.startedPIDs()
	for i, g := range m.Samples() {
		r := prom.Rank{Rank: g.Rank, Snapshot: g.Snapshot, Err: g.Err, Dead: g.Exited}
		if i < len(pids) && !g.Exited {
			r.Process = processUse(programPID(pids[i], g.Snapshot))
		}
		all = append(all, r)
	}
	return all
}

// processUse returns what a process uses; nil if it has ended.
func processUse(pid int) *prom.Process {
	p, err := proctree.ReadProcess(pid)
	if err != nil || p.Exiting {
		return nil
	}
	u := &prom.Process{CPU: p.CPU}
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		switch name, value, _ := strings.Cut(line, ":"); name {
		case "VmRSS":
			u.Resident = parseKiB(value)
		case "VmHWM":
			u.ResidentHigh = parseKiB(value)
		}
	}
	return u
}

// parseKiB parses a length such as "  1234 kB"; 0 for another text.
func parseKiB(text string) uint64 {
	n, err := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(text), "kB")), 10, 54)
	if err != nil {
		return 0
	}
	return n << 10
}
