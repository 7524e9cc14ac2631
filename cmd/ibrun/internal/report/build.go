package report

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/ibrun/ibrun/perf"
)

// New makes the report of a job.
func New(j Job) *Report {
	r := &Report{Format: Format, Remarks: []string{}, Ranks: []RankLine{}, Nodes: slices.Clone(j.Nodes), Operations: []Operation{},
		Traffic: []Traffic{}, Pairs: pairs(j.Ranks)}
	r.Job = Summary{ID: j.ID, Version: j.Version, Programs: j.Programs, Began: j.Began, Wall: j.Wall.Seconds(), Code: j.Code,
		Failure: j.Failure, Ranks: len(j.Ranks)}
	var all []*perf.Snapshot
	places := map[int]RankLine{}
	for i, n := range j.Nodes {
		// Lists are empty, and not null, also if another node has sent none.
		at := &r.Nodes[i]
		at.Environment, at.Ports = append([]Variable{}, n.Environment...), append([]Port{}, n.Ports...)
		at.Ranks = append([]Place{}, n.Ranks...)
		for _, p := range n.Ranks {
			places[p.Rank] = RankLine{Rank: p.Rank, Node: i, Program: p.Program}
		}
	}
	for i, of := range j.Ranks {
		line := places[i]
		line.Rank = i
		line.fill(of, j.Began.Add(j.Wall))
		r.Ranks = append(r.Ranks, line)
		if of.Snapshot != nil {
			all = append(all, of.Snapshot)
		}
	}
	r.sum()
	for _, o := range perf.MergeOps(all...) {
		r.Operations = append(r.Operations, operation(o))
	}
	for _, t := range perf.MergeTraffic(all...) {
		if t.Direction == perf.Out {
			r.Traffic = append(r.Traffic, Traffic{t.Transport.String(), t.Protocol.String(), t.Messages, t.Bytes})
		}
	}
	r.Slowest = slowest(r)
	r.Remarks = append(r.Remarks, remarks(r, all)...)
	return r
}

// fill writes down what a rank recorded until the end of the job.
func (l *RankLine) fill(of Rank, end time.Time) {
	s := of.Snapshot
	switch {
	case of.Err != nil:
		l.State, l.Problem = Unread, of.Err.Error()
		return
	case s == nil:
		l.State = Silent
		return
	case s.State == perf.Finalized:
		l.State = Finalized
	default:
		l.State = Unfinished
	}
	l.PID, l.Wall, l.Waiting = s.PID, s.Wall(end).Seconds(), max(s.Waiting-s.Joining, 0).Seconds()
	l.MPI = max(s.Time().Seconds(), l.Waiting) // of short calls only some are timed, and their sum is an estimate
	if l.Wall > 0 {
		l.MPIShare, l.WaitingShare = l.MPI/l.Wall, l.Waiting/l.Wall
	}
	l.Calls, _ = s.Calls()
	for _, p := range s.Peers {
		l.SentMessages += p.Out.Messages
		l.SentBytes += p.Out.Bytes
		l.ReceivedMessages += p.In.Messages
		l.ReceivedBytes += p.In.Bytes
	}
	l.UnexpectedHigh, l.Retransmissions, l.PinnedHigh = s.Queues.UnexpectedHigh, s.Retransmissions, s.Memory.PinnedHigh
	if l.State != Finalized {
		for _, c := range s.Current {
			l.Within = append(l.Within, within(c))
		}
	}
}

// within tells an operation under way: Recv from rank 3 with tag 7.
func within(c perf.Current) string {
	text := c.Op.String()
	if c.Peer >= 0 {
		preposition := "with"
		switch c.Op.Direction() {
		case perf.Out:
			preposition = "to"
		case perf.In:
			preposition = "from"
		}
		text += fmt.Sprintf(" %s rank %d", preposition, c.Peer)
	}
	if c.Tag >= 0 && !c.Op.IsWithin() {
		text += fmt.Sprintf(" with tag %d", c.Tag)
	}
	return text
}

// sum adds up the ranks.
func (r *Report) sum() {
	for i := range r.Ranks {
		l := &r.Ranks[i]
		if !l.Recorded() {
			continue
		}
		r.Job.Recorded++
		r.Job.MPIShare += l.MPIShare
		r.Job.WaitingShare += l.WaitingShare
		r.Job.Calls += l.Calls
		r.Job.Messages += l.SentMessages
		r.Job.Bytes += l.SentBytes
	}
	if n := float64(r.Job.Recorded); n > 0 {
		r.Job.MPIShare /= n
		r.Job.WaitingShare /= n
	}
}

func operation(o perf.OpStat) Operation {
	line := Operation{Op: o.Op.String(), Class: o.Class.String(), MaxBytes: o.Class.Max(), Calls: o.Calls, Bytes: o.Bytes,
		Time: o.Time.Seconds()}
	if h := o.Latency; h.Count() > 0 {
		seconds := func(d time.Duration) *float64 { s := d.Seconds(); return &s }
		line.P50, line.P99, line.P999 = seconds(h.Quantile(0.5)), seconds(h.Quantile(0.99)), seconds(h.Quantile(0.999))
		line.Max = seconds(h.Max())
	}
	return line
}

// pairs are who sent what to whom. The sender knows it; where it has left no record, the receiver tells.
func pairs(ranks []Rank) []Pair {
	type key struct {
		from, to  int
		transport perf.Transport
	}
	sums := map[key]perf.Volume{}
	add := func(k key, v perf.Volume) {
		if v.Messages > 0 {
			sum := sums[k]
			sums[k] = perf.Volume{Messages: sum.Messages + v.Messages, Bytes: sum.Bytes + v.Bytes}
		}
	}
	for i, of := range ranks {
		if of.Snapshot == nil {
			continue
		}
		for _, p := range of.Snapshot.Peers {
			add(key{i, p.Rank, p.Transport}, p.Out)
			if p.Rank >= 0 && p.Rank < len(ranks) && ranks[p.Rank].Snapshot == nil {
				add(key{p.Rank, i, p.Transport}, p.In)
			}
		}
	}
	all := make([]Pair, 0, len(sums))
	for k, v := range sums {
		all = append(all, Pair{k.from, k.to, k.transport.String(), v.Messages, v.Bytes})
	}
	slices.SortFunc(all, func(a, b Pair) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To), cmp.Compare(a.Transport, b.Transport))
	})
	return all
}
