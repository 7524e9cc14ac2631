package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/printable"
)

// The limits of what the text shows. The other formats have more.
const (
	textRanks    = 16
	textOps      = 16
	textMatrix   = 8
	textPairs    = 8
	textBindings = 8 // different bindings of ranks on a node
	textNodes    = 8
	textRemarks  = 12
	textComms    = 8
	textLengths  = 8
	barWidth     = 20
)

// Text writes the report for a terminal: everything of a small job, and the most important of a large one.
func (r *Report) Text(w io.Writer) error {
	var b strings.Builder
	r.headText(&b)
	r.ranksText(&b)
	r.opsText(&b)
	r.pairsText(&b)
	r.lengthsText(&b)
	r.nodesText(&b)
	_, err := io.WriteString(w, printable.Text(b.String()))
	return err
}

// Title returns the job in one line.
func (r *Report) Title() string {
	nodes := r.Nodes
	if len(nodes) > 1 && len(nodes[0].Ranks) == 0 { // the ibrun of the user, on another host than the ranks
		nodes = nodes[1:]
	}
	where := fmt.Sprintf("on %d nodes", len(nodes))
	if len(nodes) == 1 {
		where = "on " + clean(nodes[0].Name)
	}
	return fmt.Sprintf("%s %s, %s, exit code %d", plural(r.Job.Ranks, "rank"), where, duration(r.Job.Wall), r.Job.Code)
}

func (r *Report) headText(b *strings.Builder) {
	fmt.Fprintf(b, "\nReport of job %s: %s\n\n", r.Job.ID, r.Title())
	for i, p := range r.Job.Programs {
		name := "Program"
		if i > 0 {
			name = ""
		}
		fmt.Fprintf(b, "  %-9s %s\n", name, clean(strings.Join(p.Args, " ")))
	}
	if r.Job.Recorded > 0 {
		fmt.Fprintf(b, "  %-9s %s of the ranks' time, %s waiting for others, in %s calls\n", "MPI",
			percent(r.Job.MPIShare), percent(r.Job.WaitingShare), count(r.Job.Calls))
		fmt.Fprintf(b, "  %-9s %s in %s messages%s\n", "Sent", size(float64(r.Job.Bytes)), count(r.Job.Messages), r.trafficShares())
	}
	if n := len(r.Comms); n > 0 {
		var names []string
		for _, c := range r.Comms[:min(n, textComms)] {
			names = append(names, fmt.Sprintf("%s (%s)", clean(c.Name), "ranks "+hw.FormatList(c.Ranks)))
		}
		if n > textComms {
			names = append(names, fmt.Sprintf("%d more", n-textComms))
		}
		fmt.Fprintf(b, "  %-9s %s\n", "Named", strings.Join(names, ", "))
	}
	if s := r.Slowest; s != nil {
		fmt.Fprintf(b, "  %-9s %s\n", "Slowest", s)
	}
	if n := len(r.Job.Failure); n > 0 { // the lines before it are the last output of a rank
		fmt.Fprintf(b, "  %-9s %s\n", "Failed", clean(r.Job.Failure[n-1]))
	}
	for _, line := range r.Remarks[:min(len(r.Remarks), textRemarks)] {
		fmt.Fprintf(b, "  %-9s %s\n", "Note", clean(line))
	}
	if more := len(r.Remarks) - textRemarks; more > 0 {
		fmt.Fprintf(b, "  %-9s %d more notes\n", "", more)
	}
}

// trafficShares returns the share of the bytes that each transport and protocol carried.
func (r *Report) trafficShares() string {
	var parts []string
	for _, t := range r.Traffic {
		parts = append(parts, fmt.Sprintf("%s %s %s", t.Transport, t.Protocol, percent(share(t.Bytes, r.Job.Bytes))))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// share returns part/total, or 0 if total is 0.
func share(part, total uint64) float64 {
	if total == 0 {
		return 0
	}
	return float64(part) / float64(total)
}

// ranksText writes a line for each rank or, if there are many, for the ranks that waited least and most.
func (r *Report) ranksText(b *strings.Builder) {
	if r.Job.Recorded == 0 {
		return
	}
	var lines []*RankLine
	for i := range r.Ranks {
		lines = append(lines, &r.Ranks[i])
	}
	title := "Ranks"
	if len(lines) > textRanks {
		title = fmt.Sprintf("Ranks: of %d, those that waited least and most", len(lines))
		lines = slices.DeleteFunc(lines, func(l *RankLine) bool { return !l.Recorded() })
		slices.SortStableFunc(lines, func(a, b *RankLine) int { return compare(a.WaitingShare, b.WaitingShare) })
		if n := len(lines); n > textRanks {
			lines = slices.Delete(lines, textRanks/2, n-textRanks/2)
		}
	}
	t := table{head: []string{"rank", "# waiting = other MPI", "in MPI", "waiting", "wall", "calls", "sent", "received", "state"},
		left: []int{1, 8}}
	if len(r.Nodes) > 1 {
		t.head, t.left = append(t.head, "node"), append(t.left, 9)
	}
	for _, l := range lines {
		row := []string{fmt.Sprint(l.Rank), "", "", "", "", "", "", "", l.State}
		if l.Recorded() {
			row = []string{fmt.Sprint(l.Rank), bar(l.WaitingShare, l.MPIShare), percent(l.MPIShare), percent(l.WaitingShare),
				duration(l.Wall), count(l.Calls), size(float64(l.SentBytes)), size(float64(l.ReceivedBytes)), l.State}
		}
		if len(r.Nodes) > 1 {
			row = append(row, clean(r.Nodes[l.Node].Name))
		}
		t.add(row...)
	}
	t.write(b, title)
}

// bar draws the share of waiting as #, followed by the other time in MPI as =. A rank can have recorded anything, so both are
// limited to what a share can be.
func bar(waiting, mpi float64) string {
	waiting = min(max(waiting, 0), 1)
	in := int(min(max(mpi, waiting), 1)*barWidth + 0.5)
	idle := min(int(waiting*barWidth+0.5), in)
	return "[" + strings.Repeat("#", idle) + strings.Repeat("=", in-idle) + strings.Repeat(" ", barWidth-in) + "]"
}

// opsText writes the operations that took most time.
func (r *Report) opsText(b *strings.Builder) {
	if len(r.Operations) == 0 {
		return
	}
	ops := slices.Clone(r.Operations)
	slices.SortStableFunc(ops, func(a, b Operation) int { return compare(b.Time, a.Time) })
	title := "Operations, by time"
	if len(ops) > textOps {
		title = fmt.Sprintf("Operations: the %d of %d that took most time", textOps, len(ops))
		ops = ops[:textOps]
	}
	t := table{head: []string{"operation", "size", "calls", "bytes", "time", "p50", "p99", "p99.9", "max"}, left: []int{0}}
	for _, o := range ops {
		sizes := formatClass(o.MaxBytes)
		if o.Bytes == 0 {
			sizes = "-"
		}
		t.add(o.Op, sizes, count(o.Calls), size(float64(o.Bytes)), duration(o.Time), quantile(o.P50), quantile(o.P99), quantile(o.P999),
			quantile(o.Max))
	}
	t.write(b, title)
}

// quantile formats a quantile; nil is a dash.
func quantile(seconds *float64) string {
	if seconds == nil {
		return "-"
	}
	return duration(*seconds)
}

// pairsText writes the traffic matrix of a small job, or the pairs with most bytes of a large one.
func (r *Report) pairsText(b *strings.Builder) {
	if len(r.Pairs) == 0 {
		return
	}
	if len(r.Ranks) > textMatrix {
		t := table{head: []string{"from", "to", "by", "messages", "bytes"}, left: []int{2}}
		for _, p := range r.largestPairs(textPairs) {
			t.add(peerName(p.From), peerName(p.To), p.Transport, count(p.Messages), size(float64(p.Bytes)))
		}
		t.write(b, fmt.Sprintf("Traffic: the largest of %d pairs", len(r.Pairs)))
		return
	}
	sums, by := map[[2]int]uint64{}, map[[2]int][]string{}
	for _, p := range r.Pairs {
		at := [2]int{p.From, p.To}
		sums[at] += p.Bytes
		by[at] = append(by[at], p.Transport)
	}
	t := table{head: []string{"from \\ to"}}
	for to := range r.Ranks {
		t.head = append(t.head, fmt.Sprint(to))
	}
	for from := range r.Ranks {
		row := []string{fmt.Sprint(from)}
		for to := range r.Ranks {
			at := [2]int{from, to}
			cell := "."
			if by[at] != nil {
				cell = size(float64(sums[at])) + " " + strings.Join(by[at], "+")
			}
			row = append(row, cell)
		}
		t.add(row...)
	}
	t.write(b, "Traffic, from rank to rank")
}

// largestPairs returns the n pairs with most bytes, or all if there are fewer.
func (r *Report) largestPairs(n int) []Pair {
	largest := slices.Clone(r.Pairs)
	slices.SortStableFunc(largest, func(a, b Pair) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return largest[:min(len(largest), n)]
}

// peerName returns the number of a rank, or "others" for ranks that are not counted separately.
func peerName(rank int) string {
	if rank < 0 {
		return "others"
	}
	return fmt.Sprint(rank)
}

// lengthsText writes which protocols the messages of each length took.
func (r *Report) lengthsText(b *strings.Builder) {
	if len(r.Long) == 0 {
		return
	}
	t := table{head: []string{"by", "length", "messages", "bytes", "protocols"}, left: []int{0, 4}}
	all, title := r.Lengths(), "Messages that are not eager, by length"
	if n := len(all); n > textLengths {
		title += fmt.Sprintf(": the %d of %d with most bytes", textLengths, n)
		slices.SortStableFunc(all, func(a, b Length) int { return cmp.Compare(b.Bytes, a.Bytes) })
		all = all[:textLengths]
	}
	for _, l := range all {
		t.add(l.Transport, formatLength(l.MaxBytes), count(l.Messages), size(float64(l.Bytes)), l.Protocols)
	}
	t.write(b, title)
}

// Length has the messages over one transport with lengths of one class.
type Length struct {
	Transport       string
	MaxBytes        int
	Messages, Bytes uint64
	Protocols       string // shares of the messages, the largest first
}

// Lengths returns the messages that are not eager, by transport and length.
func (r *Report) Lengths() (all []Length) {
	for rest := r.Long; len(rest) > 0; {
		l := Length{Transport: rest[0].Transport, MaxBytes: rest[0].MaxBytes}
		n := slices.IndexFunc(rest, func(m LongMessages) bool { return m.Transport != l.Transport || m.MaxBytes != l.MaxBytes })
		if n < 0 {
			n = len(rest)
		}
		same := slices.Clone(rest[:n])
		rest = rest[n:]
		for _, m := range same {
			l.Messages += m.Messages
			l.Bytes += m.Bytes
		}
		slices.SortStableFunc(same, func(a, b LongMessages) int { return cmp.Compare(b.Messages, a.Messages) })
		var parts []string
		for _, m := range same {
			parts = append(parts, m.Protocol+" "+percent(share(m.Messages, l.Messages)))
		}
		l.Protocols = strings.Join(parts, ", ")
		all = append(all, l)
	}
	return all
}

// nodesText writes machines, versions, bindings and environment variables.
func (r *Report) nodesText(b *strings.Builder) {
	fmt.Fprintf(b, "\nEnvironment\n")
	line := func(name, format string, args ...any) {
		fmt.Fprintf(b, "  %-11s %s\n", name, clean(fmt.Sprintf(format, args...)))
	}
	line("ibrun", "%s", r.Job.Version)
	for _, p := range r.Job.Programs {
		if p.Go != "" {
			line("program", "%s: built with %s%s", p.Args[0], p.Go, withPrefix(", library ", p.Library))
		}
	}
	for i, n := range r.Nodes[:min(len(r.Nodes), textNodes)] {
		line(fmt.Sprint("node ", i), "%s%s%s%s", n.Name, withPrefix(", ", n.Kernel), withPrefix(", ", n.Processor),
			withPrefix(", ", plural(n.PUs, "processor")))
		all := bindings(n.Ranks)
		for _, bound := range all[:min(len(all), textBindings)] {
			line("", "%s", bound)
		}
		if more := len(all) - textBindings; more > 0 {
			line("", "%d more bindings", more)
		}
		for _, p := range n.Ports {
			if p.Sent+p.Received == 0 {
				continue
			}
			line("", "%s %s: sent %s, received %s", kindName(p.Kind), p.Name, size(float64(p.Sent)), size(float64(p.Received)))
		}
		for _, u := range Imbalance(n.Ports) {
			line("", "imbalance of %d %ss: %s carried %s more than the mean", u.Ports, kindName(u.Kind), u.Most, percent(u.Share))
		}
		var set []string
		for _, v := range n.Environment {
			set = append(set, v.Name+"="+v.Value)
		}
		if len(set) > 0 {
			line("", "%s", strings.Join(set, " "))
		}
	}
	if more := len(r.Nodes) - textNodes; more > 0 {
		line("", "and %s more", plural(more, "node"))
	}
}

// withPrefix returns prefix and text, or an empty string if text is empty.
func withPrefix(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// plural returns "1 rank" or "2 ranks", and an empty string for 0.
func plural(n int, noun string) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "1 " + noun
	}
	return count(uint64(n)) + " " + noun + "s"
}

// bindings returns a line for each group of ranks with the same binding.
func bindings(places []Place) []string {
	var order []string
	byBinding := map[string][]int{}
	for _, p := range places {
		how := "not bound"
		if p.Bound != "" {
			how = "bound to processors " + p.Bound
		}
		how += withPrefix(", memory of NUMA node ", p.Memory) + withPrefix(", ", p.Device)
		if byBinding[how] == nil {
			order = append(order, how)
		}
		byBinding[how] = append(byBinding[how], p.Rank)
	}
	for i, how := range order {
		order[i] = formatRanks(byBinding[how]) + ": " + how
	}
	return order
}

// clean makes untrusted text safe for a terminal: one line without control characters.
func clean(text string) string {
	return printable.Line(strings.ReplaceAll(text, "\t", " "))
}

// table is a text table. Columns are aligned to the right, except those in left.
type table struct {
	head []string
	left []int
	rows [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) write(b *strings.Builder, title string) {
	fmt.Fprintf(b, "\n%s\n", title)
	all := append([][]string{t.head}, t.rows...)
	width := make([]int, len(t.head))
	for _, row := range all {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range all {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			if slices.Contains(t.left, i) {
				cell += pad
			} else {
				cell = pad + cell
			}
			line.WriteString("  " + cell)
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}
