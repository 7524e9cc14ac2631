package report

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/ibrun/ibrun/perf"
)

// New returns the report of a job.
func New(j Job) *Report {
	r := &Report{Format: Format, Remarks: []string{}, Ranks: []RankLine{}, Nodes: slices.Clone(j.Nodes), Operations: []Operation{},
		Traffic: []Traffic{}, Pairs: sumPairs(j.Ranks), Long: []LongMessages{}}
	r.Job = Summary{ID: j.ID, Version: j.Version, Programs: j.Programs, Began: j.Began, Wall: j.Wall.Seconds(), Code: j.Code,
		Failure: j.Failure, Ranks: len(j.Ranks)}
	var all []*perf.Snapshot
	places := map[int]RankLine{}
	for i, n := range j.Nodes {
		// Lists must be empty and not nil, so that the JSON has [] and not null, even if another node sent none.
		at := &r.Nodes[i]
		at.Environment, at.Ports = append([]Variable{}, n.Environment...), append([]Port{}, n.Ports...)
		at.Ranks = append([]Place{}, n.Ranks...)
		for _, p := range n.Ranks {
			places[p.Rank] = RankLine{Rank: p.Rank, Node: i, Program: p.Program}
		}
	}
	for i, recorded := range j.Ranks {
		line := places[i]
		line.Rank = i
		line.setRecord(recorded, j.Began.Add(j.Wall))
		r.Ranks = append(r.Ranks, line)
		if recorded.Snapshot != nil {
			all = append(all, recorded.Snapshot)
		}
	}
	r.addTotals()
	for _, o := range perf.MergeOps(all...) {
		r.Operations = append(r.Operations, newOperation(o))
	}
	for _, t := range perf.MergeTraffic(all...) {
		if t.Direction == perf.Out {
			r.Traffic = append(r.Traffic, Traffic{t.Transport.String(), t.Protocol.String(), t.Messages, t.Bytes})
		}
	}
	for _, t := range perf.MergeLong(all...) {
		r.Long = append(r.Long, LongMessages{t.Transport.String(), t.MaxBytes, t.Protocol.String(), t.Messages, t.Bytes})
	}
	r.Comms = listComms(all)
	r.Slowest = findSlowest(r)
	r.Remarks = append(r.Remarks, remarks(r, all)...)
	return r
}

// setRecord copies what a rank recorded until the end of the job.
func (l *RankLine) setRecord(rank Rank, end time.Time) {
	s := rank.Snapshot
	switch {
	case rank.Err != nil:
		l.State, l.Problem = Unreadable, rank.Err.Error()
		return
	case s == nil:
		l.State = NoRecord
		return
	case s.State == perf.Finalized:
		l.State = Finalized
	default:
		l.State = Unfinished
	}
	l.PID, l.Wall, l.Waiting = s.PID, s.Wall(end).Seconds(), max(s.Waiting-s.Joining, 0).Seconds()
	l.MPI = max(s.Time().Seconds(), l.Waiting) // only some of the short calls are timed, so their sum is an estimate
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
	l.Reconnections, l.Changes = s.Reconnections, s.Changes
	if l.State != Finalized {
		for _, c := range s.Current {
			l.LastCalls = append(l.LastCalls, c.String())
		}
	}
}

// listComms returns the names of communicators, in alphabetical order.
func listComms(all []*perf.Snapshot) (comms []Comm) {
	ranks := map[string][]int{}
	for _, s := range all {
		for _, name := range s.Comms {
			ranks[name] = append(ranks[name], s.Rank)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(ranks)) {
		comms = append(comms, Comm{name, ranks[name]})
	}
	return comms
}

// addTotals computes the sums and means over the ranks.
func (r *Report) addTotals() {
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

// newOperation converts the statistics of one operation and size class.
func newOperation(o perf.OpStat) Operation {
	line := Operation{Op: o.Op.String(), Class: o.Class.String(), MaxBytes: o.Class.Max(), Calls: o.Calls, Bytes: o.Bytes,
		Time: o.Time.Seconds()}
	if h := o.Latency; h.Count() > 0 {
		seconds := func(d time.Duration) *float64 { s := d.Seconds(); return &s }
		line.P50, line.P99, line.P999 = seconds(h.Quantile(0.5)), seconds(h.Quantile(0.99)), seconds(h.Quantile(0.999))
		line.Max = seconds(h.Max())
	}
	return line
}

// sumPairs returns the traffic between each pair of ranks. It uses the record of the sender or, if there is none, that of the
// receiver.
func sumPairs(ranks []Rank) []Pair {
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
	for i, rank := range ranks {
		if rank.Snapshot == nil {
			continue
		}
		for _, p := range rank.Snapshot.Peers {
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
