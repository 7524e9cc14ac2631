package inspect

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/printable"
)

// maxStackLines is the maximum number of lines that are shown of the stacks of a rank.
const maxStackLines = 60

// maxCycleRanks is the maximum number of ranks that are shown of a wait cycle.
const maxCycleRanks = 16

// Text prints the view.
func (v *View) Text(w io.Writer) error {
	var b strings.Builder
	where := ""
	if v.Nodes > 1 {
		var hosts []string
		for i := range v.Groups {
			hosts = append(hosts, v.Groups[i].Hosts...)
		}
		where = " on " + nodesText(hosts, v.Nodes)
	}
	fmt.Fprintf(&b, "state of the ranks of job %s%s, %s after its start:\n", v.ID, where, formatDuration(time.Since(v.Began)))
	for i := range v.Groups {
		fmt.Fprintf(&b, "  %s\n", v.Groups[i].text())
	}
	if len(v.WaitCycle) > 0 {
		b.WriteString("  " + v.cycleText() + "\n")
	}
	if v.OnTheirWay > 0 {
		fmt.Fprintf(&b, "  messages and transfers on their way between ranks: %d\n", v.OnTheirWay)
	}
	for _, t := range v.OtherTags {
		fmt.Fprintf(&b, "  rank %d sends tag %d to rank %d, which waits for tag %d\n", t.Sender, t.Tag, t.Receiver, t.ReceiverTag)
	}
	for _, s := range v.Stacks {
		if s.Text == "" {
			fmt.Fprintf(&b, "rank %d did not return its goroutines\n", s.Rank)
			continue
		}
		fmt.Fprintf(&b, "goroutines of rank %d:\n", s.Rank)
		lines := shortenStacks(s.Text)
		for i, line := range lines {
			if i == maxStackLines {
				fmt.Fprintf(&b, "  | (%d more lines; ibrun hang --json has them all)\n", len(lines)-i)
				break
			}
			fmt.Fprintf(&b, "  | %s\n", line)
		}
	}
	_, err := io.WriteString(w, printable.Text(b.String()))
	return err
}

// cycleText returns the line of the ranks that wait for each other. It calls them deadlocked only if nothing is on its way that
// could end a wait.
func (v *View) cycleText() string {
	var path strings.Builder
	for i, rank := range v.WaitCycle {
		if i == maxCycleRanks {
			fmt.Fprintf(&path, "(%d more) -> ", len(v.WaitCycle)-i)
			break
		}
		fmt.Fprintf(&path, "%d -> ", rank)
	}
	text := fmt.Sprintf("each rank waits for the next: %s%d", path.String(), v.WaitCycle[0])
	switch {
	case v.OnTheirWay == 0:
		return "deadlock, " + text
	case v.OnTheirWay < 0:
		return text + ", unless a message is on its way"
	}
	return text
}

// nodesText returns how many nodes run the ranks on these hosts. Node 0 of several may run none. If no host is known, it is how
// many nodes the job has.
func nodesText(hosts []string, nodes int) string {
	slices.Sort(hosts)
	hosts = slices.DeleteFunc(slices.Compact(hosts), func(name string) bool { return name == "" })
	switch {
	case len(hosts) == 1:
		return printable.Line(hosts[0])
	case len(hosts) > 1:
		nodes = len(hosts)
	}
	return fmt.Sprintf("%d nodes", nodes)
}

// maxHosts is the maximum number of node names in a line.
const maxHosts = 3

// text returns the line of a group: "12 ranks (0-11) on n0, n1: in Recv from rank 12, tag 7, for 31 s", or "2 ranks (0,2): in
// Barrier, for 3 s, waiting for rank 1".
func (g *Group) text() string {
	text := ranksText(g.Ranks)
	switch n := len(g.Hosts); {
	case n > maxHosts:
		text += fmt.Sprintf(" on %d nodes", n)
	case n > 0:
		text += " on " + printable.Line(strings.Join(g.Hosts, ", "))
	}
	text += ": " + g.What
	switch {
	case g.What == exitedText:
		text += " " + formatRange(g.From, g.To) + " ago"
	case g.activity != progressing && g.activity != unreachable:
		text += ", for " + formatRange(g.From, g.To)
	}
	if len(g.WaitsFor) > 0 {
		text += ", waiting for " + ranksText(g.WaitsFor)
	}
	if g.activity != waiting && len(g.WaitedFor) > 0 {
		verb := "wait"
		if len(g.WaitedFor) == 1 {
			verb = "waits"
		}
		text += "; " + ranksText(g.WaitedFor) + " " + verb + " for it"
	}
	return text
}

func ranksText(ranks []int) string {
	if len(ranks) == 1 {
		return fmt.Sprintf("rank %d", ranks[0])
	}
	return fmt.Sprintf("%d ranks (%s)", len(ranks), hw.FormatList(ranks))
}

// formatRange returns "31 s", or "10 s to 31 s".
func formatRange(from, to float64) string {
	a, b := formatDuration(seconds(from)), formatDuration(seconds(to))
	if a == b {
		return a
	}
	return a + " to " + b
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// formatDuration formats a duration in whole seconds.
func formatDuration(d time.Duration) string {
	switch d = d.Truncate(time.Second); {
	case d <= 0:
		return "less than 1 s"
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	}
	return d.String()
}

// internalPrefixes are the prefixes of functions that do not show where a program waits.
var internalPrefixes = [...]string{"runtime.", "syscall.", "internal/", "golang.org/x/sys/",
	"github.com/ibrun/ibrun/mpi/internal/"}

func isInternal(function string) bool {
	return slices.ContainsFunc(internalPrefixes[:], func(prefix string) bool { return strings.HasPrefix(function, prefix) })
}

// shortenStacks shortens the stacks that the Go runtime prints: a function and its position are one line; arguments are omitted,
// and so are the innermost functions in the runtime or below package mpi.
func shortenStacks(text string) (lines []string) {
	for goroutine := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n\n") {
		head, rest, _ := strings.Cut(goroutine, "\n")
		lines = append(lines, head)
		external := false // a frame outside the internal packages has been reached
		frames := strings.Split(rest, "\n")
		for i := 0; i < len(frames); i++ {
			function, position := frames[i], ""
			if i+1 < len(frames) && strings.HasPrefix(frames[i+1], "\t") {
				position, _, _ = strings.Cut(strings.TrimPrefix(frames[i+1], "\t"), " +0x")
				i++
			}
			if external = external || !isInternal(function); !external || function == "" {
				continue
			}
			if open := strings.LastIndexByte(function, '('); open > 0 && strings.HasSuffix(function, ")") {
				function = function[:open]
			}
			lines = append(lines, strings.TrimSuffix("    "+function+" at "+position, " at "))
		}
	}
	return lines
}
