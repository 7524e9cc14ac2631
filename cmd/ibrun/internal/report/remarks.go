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

// imbalanceThreshold is the imbalance of the ports of a node above which a remark mentions it.
const imbalanceThreshold = 0.2

// remarks returns what the reader should know before the figures, a sentence each.
func remarks(r *Report, all []*perf.Snapshot) (lines []string) {
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	byState := map[string][]int{}
	byProblem := map[string][]int{}
	for _, l := range r.Ranks {
		byState[l.State] = append(byState[l.State], l.Rank)
		if l.Problem != "" {
			byProblem[l.Problem] = append(byProblem[l.Problem], l.Rank)
		}
	}
	if unfinished := byState[Unfinished]; len(unfinished) > 0 {
		add("%s ended without Finalize; the figures cover the time until then", formatRanks(unfinished))
	}
	for _, line := range lastCalls(r.Ranks) {
		add("%s", line)
	}
	if missing := byState[NoRecord]; len(missing) > 0 {
		add("%s recorded nothing: IBRUN_PERF=off is set, or the program does not use package mpi", formatRanks(missing))
	}
	for _, l := range r.Ranks {
		if same := byProblem[l.Problem]; l.Problem != "" && same[0] == l.Rank {
			add("the record of %s cannot be read: %s", formatRanks(same), l.Problem)
		}
	}
	withoutHistogram := uint64(0) // timed operations without a histogram
	for _, s := range all {
		withoutHistogram += s.WithoutHistogram
	}
	if withoutHistogram > 0 {
		add("%s latencies were not recorded, because all histograms were in use: operations that were first used late have no "+
			"quantiles", count(withoutHistogram))
	}
	for _, line := range reconnections(r.Ranks) {
		add("%s", line)
	}
	for i, n := range r.Nodes {
		if n.Version == "" {
			add("node %d (%s) reported nothing", i, n.Name)
		}
		if n.Version != "" && n.Version != r.Job.Version {
			add("%s runs ibrun %s, node 0 runs %s", n.Name, n.Version, r.Job.Version)
		}
		if line := oversubscription(n); line != "" {
			add("%s", line)
		}
		for _, u := range Imbalance(n.Ports) {
			if u.Share > imbalanceThreshold {
				add("on %s, %s %s carried %.0f %% more than the mean of %d", n.Name, kindName(u.Kind), u.Most, 100*u.Share, u.Ports)
			}
		}
	}
	return lines
}

// reconnections returns a line if connections were made again, and one if bytes were changed on the way.
func reconnections(ranks []RankLine) (lines []string) {
	var connections, changes uint64
	var reconnected, receivers []int
	for _, l := range ranks {
		if connections += l.Reconnections; l.Reconnections > 0 {
			reconnected = append(reconnected, l.Rank)
		}
		if changes += l.Changes; l.Changes > 0 {
			receivers = append(receivers, l.Rank)
		}
	}
	if connections > 0 {
		lines = append(lines, fmt.Sprintf("%s made broken connections again, %s times in all (both ends count); nothing was lost",
			formatRanks(reconnected), count(connections)))
	}
	if changes > 0 {
		lines = append(lines, fmt.Sprintf("%s received changed bytes %s times, which were sent again: repair or replace the network "+
			"devices on the way", formatRanks(receivers), count(changes)))
	}
	return lines
}

// maxLastCalls is the maximum number of different last calls that the remarks list.
const maxLastCalls = 6

// lastCalls returns a sentence for each call that ranks without Finalize were in at the end. Calls with few ranks come first.
func lastCalls(ranks []RankLine) (lines []string) {
	byCall := map[string][]int{}
	for _, l := range ranks {
		for _, call := range l.LastCalls {
			byCall[call] = append(byCall[call], l.Rank)
		}
	}
	calls := slices.SortedFunc(maps.Keys(byCall), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(byCall[a]), len(byCall[b])), cmp.Compare(byCall[a][0], byCall[b][0]), cmp.Compare(a, b))
	})
	for _, call := range calls[:min(len(calls), maxLastCalls)] {
		was := "was"
		if len(byCall[call]) > 1 {
			was = "were"
		}
		lines = append(lines, fmt.Sprintf("%s %s in %s at the end; this call is not in the figures",
			formatRanks(byCall[call]), was, call))
	}
	if more := len(calls) - maxLastCalls; more > 0 {
		lines = append(lines, fmt.Sprintf("other ranks were in %d more calls at the end", more))
	}
	return lines
}

// oversubscription returns a sentence about the ranks of a node that share too few processors, or an empty string.
func oversubscription(n Node) string {
	sharing := 0
	for _, p := range n.Ranks {
		if p.Shares {
			sharing++
		}
	}
	if sharing == 0 {
		return ""
	}
	return fmt.Sprintf("%d ranks share %d processors on %s, so part of the waiting time is waiting for a CPU",
		sharing, n.PUs, n.Name)
}

// formatRanks returns a list of ranks as text, shortened if it is long: rank 3, or ranks 0-2,5 (4).
func formatRanks(list []int) string {
	if len(list) == 1 {
		return fmt.Sprintf("rank %d", list[0])
	}
	text := hw.FormatList(list)
	if len(text) > 60 {
		text = text[:strings.LastIndexByte(text[:60], ',')] + ",..."
	}
	return fmt.Sprintf("ranks %s (%d)", text, len(list))
}
