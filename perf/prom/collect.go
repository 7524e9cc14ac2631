package prom

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ibrun/ibrun/perf"
)

// collector shows a node, each of its ranks or their sum.
type collector struct {
	node  *Node
	each  bool
	descs [len(families)]*prometheus.Desc
}

// Collector shows the sum of the node's ranks, or each of them.
func (n *Node) Collector(each bool) prometheus.Collector {
	return &collector{node: n, each: each, descs: descs(each)}
}

func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		to <- d
	}
}

func (c *collector) Collect(to chan<- prometheus.Metric) {
	p := put{c: c, to: to}
	p.set(jobInfo, 1, c.node.Job, c.node.Name)
	all := c.node.look()
	count, unreadable := map[string]int{}, 0
	for i := range all {
		count[all[i].word()]++
		if all[i].Err != nil {
			unreadable++
		}
	}
	for _, w := range words {
		p.set(rankStates, float64(count[w]), w)
	}
	p.set(pageFaults, float64(unreadable))
	if c.each {
		for i := range all {
			p.rank = []string{strconv.Itoa(all[i].Rank.Rank)}
			p.sum(all[i : i+1])
		}
		p.rank = nil
	} else {
		p.sum(all)
	}
	c.ports(&p)
}

// put writes metrics of one scrape.
type put struct {
	c    *collector
	to   chan<- prometheus.Metric
	rank []string // label of the series that follow, or none
}

// set writes one value of a counter or gauge.
func (p *put) set(f int, v float64, labels ...string) {
	t := prometheus.GaugeValue
	if families[f].kind == counter {
		t = prometheus.CounterValue
	}
	p.to <- prometheus.MustNewConstMetric(p.c.descs[f], t, v, append(labels, p.rank...)...)
}

// sum writes what some ranks have done together. Sums are taken over all of them; what is called highest or longest is that of
// the one that has most.
func (p *put) sum(of []state) {
	var snapshots []*perf.Snapshot
	var wall, inside, waiting, old time.Duration
	var q perf.Queues
	var m perf.Memory
	var again uint64
	for i := range of {
		s := of[i].Snapshot
		if s == nil {
			continue
		}
		snapshots = append(snapshots, s)
		wall += of[i].wall
		inside += s.Time()
		waiting += s.Waiting
		old = max(old, of[i].oldest)
		again += s.Retransmissions
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
	p.set(rankSeconds, wall.Seconds())
	p.set(callSeconds, inside.Seconds())
	p.set(waitSeconds, waiting.Seconds())
	p.set(oldest, old.Seconds())
	p.set(unexpected, float64(q.Unexpected))
	p.set(unexpectedHigh, float64(q.UnexpectedHigh))
	p.set(unexpectedBytes, float64(q.UnexpectedBytes))
	p.set(posted, float64(q.Posted))
	p.set(matched, float64(q.Matches))
	p.set(matchLength, float64(q.MatchLength))
	p.set(retransmissions, float64(again))
	p.set(registrations, float64(m.Registrations))
	p.set(pinned, float64(m.Pinned))
	p.set(pinnedHigh, float64(m.PinnedHigh))
	p.operations(perf.MergeOps(snapshots...))
	for _, t := range perf.MergeTraffic(snapshots...) {
		p.set(messages, float64(t.Messages), t.Direction.String(), t.Transport.String(), t.Protocol.String())
		p.set(messageBytes, float64(t.Bytes), t.Direction.String(), t.Transport.String(), t.Protocol.String())
	}
}

func (p *put) operations(all []perf.OpStat) {
	for _, o := range all {
		if o.Latency != nil {
			labels := append([]string{o.Op.String(), o.Class.String()}, p.rank...)
			p.to <- &latencies{desc: p.c.descs[latency], labels: labels, of: o.Latency}
		}
	}
	for _, o := range perf.MergeClasses(all) {
		p.set(calls, float64(o.Calls), o.Op.String())
		p.set(operationBytes, float64(o.Bytes), o.Op.String())
		if o.Latency != nil {
			p.set(longestLatency, o.Latency.Max().Seconds(), o.Op.String())
		}
	}
}
