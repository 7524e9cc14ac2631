package prom

import (
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ibrun/ibrun/internal/buildinfo"
	"github.com/ibrun/ibrun/perf"
)

// collector collects the metrics of a node: of each of its ranks, or their sums.
type collector struct {
	node    *Node
	perRank bool
	descs   [len(families)]*prometheus.Desc
}

// Collector returns a collector of the sums over the node's ranks, or of each rank.
func (n *Node) Collector(each bool) prometheus.Collector {
	return &collector{node: n, perRank: each, descs: n.descs(each)}
}

func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		to <- d
	}
}

func (c *collector) Collect(to chan<- prometheus.Metric) {
	p := metricWriter{c: c, to: to}
	p.setValue(buildInfo, 1, buildinfo.Version(), buildinfo.Commit(), runtime.Version())
	if c.node.ExitCode != nil {
		if code, ended := c.node.ExitCode(); ended {
			p.setValue(exitCode, float64(code))
		}
	}
	all := c.node.sampleRanks()
	count, unreadable := map[string]int{}, 0
	for i := range all {
		count[all[i].label()]++
		if all[i].Err != nil {
			unreadable++
		}
	}
	for _, w := range stateLabels {
		p.setValue(rankStates, float64(count[w]), w)
	}
	p.setValue(unreadablePages, float64(unreadable))
	if c.perRank {
		for i := range all {
			p.rankValue = []string{strconv.Itoa(all[i].Rank.Rank)}
			p.setTotals(all[i : i+1])
		}
		p.rankValue = nil
	} else {
		p.setTotals(all)
	}
	c.ports(&p)
}

// metricWriter sends the metrics of one scrape to the library.
type metricWriter struct {
	c         *collector
	to        chan<- prometheus.Metric
	rankValue []string // value of the label rank of the next series; empty: no such label
}

// setValue sends one value of a counter or gauge.
func (p *metricWriter) setValue(f int, v float64, labels ...string) {
	t := prometheus.GaugeValue
	if families[f].kind == counter {
		t = prometheus.CounterValue
	}
	p.to <- prometheus.MustNewConstMetric(p.c.descs[f], t, v, append(labels, p.rankValue...)...)
}

// setTotals sends the sums over some ranks. Of families named highest or longest it sends the maximum.
func (p *metricWriter) setTotals(of []rankState) {
	var snapshots []*perf.Snapshot
	var wall, inside, waiting, old time.Duration
	var q perf.Queues
	var m perf.Memory
	var again, connections, changed, done, expected uint64
	var used Process
	for i := range of {
		used.CPU += of[i].used.CPU
		used.Resident += of[i].used.Resident
		used.ResidentHigh = max(used.ResidentHigh, of[i].used.ResidentHigh)
		s := of[i].Snapshot
		if s == nil {
			continue
		}
		snapshots = append(snapshots, s)
		wall += of[i].wall
		inside += s.Time()
		waiting += s.Waiting
		done += s.Done
		expected += s.Total
		old = max(old, of[i].oldest)
		again += s.Retransmissions
		connections += s.Reconnections
		changed += s.Changes
		q.Unexpected += s.Queues.Unexpected
		q.UnexpectedHigh = max(q.UnexpectedHigh, s.Queues.UnexpectedHigh)
		q.UnexpectedBytes += s.Queues.UnexpectedBytes
		q.Posted += s.Queues.Posted
		q.Matches += s.Queues.Matches
		q.MatchLength += s.Queues.MatchLength
		m.Registrations += s.Memory.Registrations
		m.Pinned += s.Memory.Pinned
		m.PinnedHigh = max(m.PinnedHigh, s.Memory.PinnedHigh)
	}
	p.setValue(rankSeconds, wall.Seconds())
	p.setValue(progressDone, float64(done))
	p.setValue(progressExpected, float64(expected))
	p.setValue(cpuSeconds, used.CPU.Seconds())
	p.setValue(resident, float64(used.Resident))
	p.setValue(residentHigh, float64(used.ResidentHigh))
	p.setValue(callSeconds, inside.Seconds())
	p.setValue(waitSeconds, waiting.Seconds())
	p.setValue(oldestCall, old.Seconds())
	p.setValue(unexpected, float64(q.Unexpected))
	p.setValue(unexpectedHigh, float64(q.UnexpectedHigh))
	p.setValue(unexpectedBytes, float64(q.UnexpectedBytes))
	p.setValue(posted, float64(q.Posted))
	p.setValue(matched, float64(q.Matches))
	p.setValue(matchLength, float64(q.MatchLength))
	p.setValue(retransmissions, float64(again))
	p.setValue(reconnections, float64(connections))
	p.setValue(changes, float64(changed))
	p.setValue(registrations, float64(m.Registrations))
	p.setValue(pinned, float64(m.Pinned))
	p.setValue(pinnedHigh, float64(m.PinnedHigh))
	p.setOperations(perf.MergeOps(snapshots...))
	for _, t := range perf.MergeTraffic(snapshots...) {
		p.setValue(messages, float64(t.Messages), t.Direction.String(), t.Transport.String(), t.Protocol.String())
		p.setValue(messageBytes, float64(t.Bytes), t.Direction.String(), t.Transport.String(), t.Protocol.String())
	}
}

func (p *metricWriter) setOperations(all []perf.OpStat) {
	for _, o := range all {
		if o.Latency != nil {
			labels := append([]string{o.Op.String(), o.Class.String()}, p.rankValue...)
			p.to <- &latencyHistogram{desc: p.c.descs[latency], labels: labels, source: o.Latency}
		}
	}
	for _, o := range perf.MergeClasses(all) {
		p.setValue(calls, float64(o.Calls), o.Op.String())
		p.setValue(operationBytes, float64(o.Bytes), o.Op.String())
		if o.Latency != nil {
			p.setValue(longestLatency, o.Latency.Max().Seconds(), o.Op.String())
		}
	}
}
