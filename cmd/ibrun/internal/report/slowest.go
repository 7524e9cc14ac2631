package report

import (
	"fmt"
	"slices"
	"strings"
)

// minWaitingDifference is the smallest difference between the waiting share of the other ranks (median) and that of the rank that
// waits least, from which on this rank is reported as the slowest.
const minWaitingDifference = 0.05

// findSlowest returns the rank that waits least, because the others wait for it. It returns nil if the others do not wait clearly
// more. It does not return a rank that was in a call at the end: how long it had waited there is not in its figures, so it may
// have waited longer than all others, as in a deadlock.
func findSlowest(r *Report) *Slowest {
	var all []*RankLine
	for i := range r.Ranks {
		if l := &r.Ranks[i]; l.Recorded() && l.Wall > 0 {
			all = append(all, l)
		}
	}
	if len(all) < 2 {
		return nil
	}
	candidates := slices.DeleteFunc(slices.Clone(all), func(l *RankLine) bool { return len(l.LastCalls) > 0 })
	if len(candidates) == 0 {
		return nil
	}
	least := slices.MinFunc(candidates, func(a, b *RankLine) int { return compare(a.WaitingShare, b.WaitingShare) })
	others := slices.DeleteFunc(slices.Clone(all), func(l *RankLine) bool { return l == least })
	othersMedian := func(value func(*RankLine) float64) float64 { return median(others, value) }
	s := &Slowest{Rank: least.Rank, WaitingShare: least.WaitingShare,
		OthersShare: othersMedian(func(l *RankLine) float64 { return l.WaitingShare }), Reasons: []string{}}
	if s.OthersShare-s.WaitingShare < minWaitingDifference {
		return nil
	}
	addReason := func(format string, args ...any) { s.Reasons = append(s.Reasons, fmt.Sprintf(format, args...)) }
	if ours, theirs := least.outsideMPI(), othersMedian((*RankLine).outsideMPI); ours > 1.1*theirs && ours-theirs > 0.02*least.Wall {
		addReason("it spent %s outside MPI, the others %s (median)", duration(ours), duration(theirs))
	}
	moved := func(l *RankLine) float64 { return float64(l.SentBytes + l.ReceivedBytes) }
	most := slices.MaxFunc(others, func(a, b *RankLine) int { return compare(moved(a), moved(b)) })
	if ours, theirs := moved(least), moved(most); ours > 1.2*theirs && ours > 1e6 {
		addReason("it sent and received %s, each other rank at most %s", size(ours), size(theirs))
	}
	retransmissions := func(l *RankLine) float64 { return float64(l.Retransmissions) }
	if ours, theirs := retransmissions(least), othersMedian(retransmissions); ours > 2*theirs && ours >= 10 {
		addReason("it retransmitted %s packets, the others %s (median)", count(uint64(ours)), count(uint64(theirs)))
	}
	oversubscribed := r.oversubscribed()
	if oversubscribed[least.Rank] && slices.ContainsFunc(others, func(l *RankLine) bool { return !oversubscribed[l.Rank] }) {
		addReason("it shares its processors with other ranks")
	}
	return s
}

// outsideMPI returns the time that the rank spent outside MPI calls, in seconds.
func (l *RankLine) outsideMPI() float64 { return max(l.Wall-l.MPI, 0) }

// oversubscribed returns the set of ranks that share their processors with more ranks than there are processors.
func (r *Report) oversubscribed() map[int]bool {
	all := map[int]bool{}
	for _, n := range r.Nodes {
		for _, p := range n.Ranks {
			if p.Shares {
				all[p.Rank] = true
			}
		}
	}
	return all
}

// compare orders numbers that are not NaN.
func compare(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// median returns the median of a value over some ranks, of which there must be at least one.
func median(ranks []*RankLine, value func(*RankLine) float64) float64 {
	values := make([]float64, len(ranks))
	for i, l := range ranks {
		values[i] = value(l)
	}
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

// String names the rank and the reasons, in one line.
func (s *Slowest) String() string {
	text := fmt.Sprintf("rank %d: it waited %s of its time, the others %s (median)", s.Rank, percent(s.WaitingShare),
		percent(s.OthersShare))
	if len(s.Reasons) == 0 {
		return text + "; the records show no other difference"
	}
	return text + "; " + strings.Join(s.Reasons, "; ")
}
