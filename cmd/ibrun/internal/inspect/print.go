package inspect

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/ibrun/ibrun/hw"
)

// maxStackLines is how much of a rank's stacks is shown.
const maxStackLines = 60

// maxCircle is how many ranks of a circle are shown.
const maxCircle = 16

// Text writes the view for people.
func (v *View) Text(w io.Writer) error {
	var b strings.Builder
	where := ""
	if v.Nodes > 1 {
		where = fmt.Sprintf(" on %d nodes", v.Nodes)
	}
	fmt.Fprintf(&b, "what the ranks of job %s%s do, %s after its start:\n", v.ID, where, long(time.Since(v.Began)))
	for i := range v.Groups {
		fmt.Fprintf(&b, "  %s\n", v.Groups[i].line())
	}
	if len(v.Circle) > 0 {
		var path strings.Builder
		for i, rank := range v.Circle {
			if i == maxCircle {
				fmt.Fprintf(&path, "(%d more) -> ", len(v.Circle)-i)
				break
			}
			fmt.Fprintf(&path, "%d -> ", rank)
		}
		fmt.Fprintf(&b, "  in a circle, each waits for the next: %s%d\n", path.String(), v.Circle[0])
	}
	for _, s := range v.Stacks {
		if s.Text == "" {
			fmt.Fprintf(&b, "rank %d has not told what its goroutines do\n", s.Rank)
			continue
		}
		fmt.Fprintf(&b, "goroutines of rank %d:\n", s.Rank)
		lines := brief(s.Text)
		for i, line := range lines {
			if i == maxStackLines {
				fmt.Fprintf(&b, "  | (%d more lines; ibrun hang --json has them all)\n", len(lines)-i)
				break
			}
			fmt.Fprintf(&b, "  | %s\n", line)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// maxHosts is of how many nodes a line has the names.
const maxHosts = 3

// line is "12 ranks (0-11) on n0, n1: in Recv from rank 12, tag 7, for 31 s".
func (g *Group) line() string {
	text := ranksText(g.Ranks)
	switch n := len(g.Hosts); {
	case n > maxHosts:
		text += fmt.Sprintf(" on %d nodes", n)
	case n > 0:
		text += " on " + strings.Join(g.Hosts, ", ")
	}
	text += ": " + g.What
	if g.order != getsOn && g.order != unheard {
		text += ", for " + span(g.From, g.To)
	}
	if g.order != waiting && len(g.WaitedFor) > 0 {
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

// span is "31 s", or "10 s to 31 s".
func span(from, to float64) string {
	a, b := long(seconds(from)), long(seconds(to))
	if a == b {
		return a
	}
	return a + " to " + b
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// long is a time as people say it, in whole seconds.
func long(d time.Duration) string {
	switch d = d.Truncate(time.Second); {
	case d <= 0:
		return "less than 1 s"
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	}
	return d.String()
}

// inner are the beginnings of functions whose names tell nobody where a program waits.
var inner = [...]string{"runtime.", "syscall.", "internal/", "golang.org/x/sys/", "github.com/ibrun/ibrun/mpi/internal/",
	"github.com/ibrun/ibrun/mpi.(*collState)."}

func isInner(function string) bool {
	return slices.ContainsFunc(inner[:], func(prefix string) bool { return strings.HasPrefix(function, prefix) })
}

// brief shortens what the Go runtime writes about goroutines: a function and its place are one line, arguments are left out, and
// so is what a goroutine has called within the runtime or below package mpi.
func brief(text string) (lines []string) {
	for goroutine := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n\n") {
		head, rest, _ := strings.Cut(goroutine, "\n")
		lines = append(lines, head)
		outer := false
		frames := strings.Split(rest, "\n")
		for i := 0; i < len(frames); i++ {
			function, place := frames[i], ""
			if i+1 < len(frames) && strings.HasPrefix(frames[i+1], "\t") {
				place, _, _ = strings.Cut(strings.TrimPrefix(frames[i+1], "\t"), " +0x")
				i++
			}
			if outer = outer || !isInner(function); !outer || function == "" {
				continue
			}
			if open := strings.LastIndexByte(function, '('); open > 0 && strings.HasSuffix(function, ")") {
				function = function[:open]
			}
			lines = append(lines, strings.TrimSuffix("    "+function+" at "+place, " at "))
		}
	}
	return lines
}
