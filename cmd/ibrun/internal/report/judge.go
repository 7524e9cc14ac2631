package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/perf"
)

// standsOut is by how much of their time the others have to wait longer than the rank that they wait for.
const standsOut = 0.05

// slowest finds the rank that the others wait for. It is the one that waits least, if the others wait clearly more.
func slowest(r *Report) *Slowest {
	var all []*RankLine
	for i := range r.Ranks {
		if l := &r.Ranks[i]; l.Recorded() && l.Wall > 0 {
			all = append(all, l)
		}
	}
	if len(all) < 2 {
		return nil
	}
	least := slices.MinFunc(all, func(a, b *RankLine) int { return compare(a.WaitingShare, b.WaitingShare) })
	others := slices.DeleteFunc(slices.Clone(all), func(l *RankLine) bool { return l == least })
	of := func(what func(*RankLine) float64) float64 { return median(others, what) }
	s := &Slowest{Rank: least.Rank, WaitingShare: least.WaitingShare,
		OthersShare: of(func(l *RankLine) float64 { return l.WaitingShare }), Reasons: []string{}}
	if s.OthersShare-s.WaitingShare < standsOut {
		return nil
	}
	because := func(format string, args ...any) { s.Reasons = append(s.Reasons, fmt.Sprintf(format, args...)) }
	if ours, theirs := least.work(), of((*RankLine).work); ours > 1.1*theirs && ours-theirs > 0.02*least.Wall {
		because("it works %s between its calls, they %s", duration(ours), duration(theirs))
	}
	moved := func(l *RankLine) float64 { return float64(l.SentBytes + l.ReceivedBytes) }
	most := slices.MaxFunc(others, func(a, b *RankLine) int { return compare(moved(a), moved(b)) })
	if ours, theirs := moved(least), moved(most); ours > 1.2*theirs && ours > 1e6 {
		because("it moves %s, none of them more than %s", size(ours), size(theirs))
	}
	again := func(l *RankLine) float64 { return float64(l.Retransmissions) }
	if ours, theirs := again(least), of(again); ours > 2*theirs && ours >= 10 {
		because("%s of its packets had to be sent again, of theirs %s", count(uint64(ours)), count(uint64(theirs)))
	}
	shares := r.shares()
	if shares[least.Rank] && slices.ContainsFunc(others, func(l *RankLine) bool { return !shares[l.Rank] }) {
		because("it shares its processors with other ranks")
	}
	return s
}

// work is the time outside of calls, in seconds.
func (l *RankLine) work() float64 { return max(l.Wall-l.MPI, 0) }

// shares are the ranks with fewer processors than ranks.
func (r *Report) shares() map[int]bool {
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

func compare(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func median(of []*RankLine, what func(*RankLine) float64) float64 {
	values := make([]float64, len(of))
	for i, l := range of {
		values[i] = what(l)
	}
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

// uneven is from which imbalance of ports on there is a remark.
const uneven = 0.2

// remarks are what the reader should know before the figures.
func remarks(r *Report, all []*perf.Snapshot) (lines []string) {
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	states := map[string][]int{}
	why := map[string][]int{}
	for _, l := range r.Ranks {
		states[l.State] = append(states[l.State], l.Rank)
		if l.Problem != "" {
			why[l.Problem] = append(why[l.Problem], l.Rank)
		}
	}
	if left := states[Unfinished]; len(left) > 0 {
		say("%s ended without Finalize: the figures are those up to then", ranks(left))
	}
	for _, line := range lastCalls(r.Ranks) {
		say("%s", line)
	}
	if silent := states[Silent]; len(silent) > 0 {
		say("%s recorded nothing: IBRUN_PERF=off, or a program that does not use package mpi", ranks(silent))
	}
	for _, l := range r.Ranks {
		if who := why[l.Problem]; l.Problem != "" && who[0] == l.Rank {
			say("what %s recorded cannot be read: %s", ranks(who), l.Problem)
		}
	}
	untold := uint64(0)
	for _, s := range all {
		untold += s.WithoutHistogram
	}
	if untold > 0 {
		say("%s times found no histogram: the quantiles of the operations that began late are missing", count(untold))
	}
	for i, n := range r.Nodes {
		if n.Version == "" {
			say("node %d (%s) has told nothing", i, n.Name)
		}
		if n.Version != "" && n.Version != r.Job.Version {
			say("%s has ibrun %s, and node 0 %s", n.Name, n.Version, r.Job.Version)
		}
		if line := crowded(n); line != "" {
			say("%s", line)
		}
		for _, u := range Imbalance(n.Ports) {
			if u.Share > uneven {
				say("on %s the %s %s carried %.0f %% more than the mean of %d", n.Name, kindName(u.Kind), u.Most, 100*u.Share, u.Ports)
			}
		}
	}
	return lines
}

// shownCalls is how many different calls of ranks that did not finalize are told.
const shownCalls = 6

// lastCalls tells where ranks were that did not finalize, those first that were there alone or with few.
func lastCalls(of []RankLine) (lines []string) {
	who := map[string][]int{}
	for _, l := range of {
		for _, call := range l.Within {
			who[call] = append(who[call], l.Rank)
		}
	}
	calls := slices.SortedFunc(maps.Keys(who), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(who[a]), len(who[b])), cmp.Compare(who[a][0], who[b][0]), cmp.Compare(a, b))
	})
	for _, call := range calls[:min(len(calls), shownCalls)] {
		was := "was"
		if len(who[call]) > 1 {
			was = "were"
		}
		lines = append(lines, fmt.Sprintf("%s %s in %s at the end, which is not in the figures", ranks(who[call]), was, call))
	}
	if more := len(calls) - shownCalls; more > 0 {
		lines = append(lines, fmt.Sprintf("and others in %d more calls", more))
	}
	return lines
}

// crowded tells that ranks take turns.
func crowded(n Node) string {
	crowd := 0
	for _, p := range n.Ranks {
		if p.Shares {
			crowd++
		}
	}
	if crowd == 0 {
		return ""
	}
	return fmt.Sprintf("%d ranks on %s take turns on %d processors: part of the waiting is for one of these", crowd, n.Name, n.PUs)
}

// ranks names some, briefly.
func ranks(list []int) string {
	if len(list) == 1 {
		return fmt.Sprintf("rank %d", list[0])
	}
	text := hw.FormatList(list)
	if len(text) > 60 {
		text = text[:strings.LastIndexByte(text[:60], ',')] + ",..."
	}
	return fmt.Sprintf("ranks %s (%d)", text, len(list))
}
