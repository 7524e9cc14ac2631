package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ibrun/ibrun/internal/printable"
	"github.com/ibrun/ibrun/perf"
	"github.com/ibrun/ibrun/perf/jobs"
)

// compareLong orders long messages by transport, length and protocol.
func compareLong(a, b jobs.LongMessages) int {
	return cmp.Or(compareLength(a, b), cmp.Compare(a.Protocol, b.Protocol))
}

// compareLength orders long messages by transport and length.
func compareLength(a, b jobs.LongMessages) int {
	return cmp.Or(cmp.Compare(a.Transport, b.Transport), cmp.Compare(uint(a.MaxBytes), uint(b.MaxBytes))) // -1 is the largest
}

// longSince returns the long messages that a rank has sent between two samples.
func longSince(first, then []jobs.LongMessages) (sent []jobs.LongMessages) {
	for _, l := range then {
		if i := slices.IndexFunc(first, func(b jobs.LongMessages) bool { return compareLong(l, b) == 0 }); i >= 0 {
			l.Messages = increase(first[i].Messages, l.Messages)
			l.Bytes = increase(first[i].Bytes, l.Bytes)
		}
		if l.Messages > 0 {
			sent = append(sent, l)
		}
	}
	return sent
}

// mergeLong adds up the messages of several ranks. all may be changed.
func mergeLong(all []jobs.LongMessages) (sums []jobs.LongMessages) {
	slices.SortFunc(all, compareLong)
	for _, l := range all {
		if n := len(sums); n > 0 && compareLong(sums[n-1], l) == 0 {
			sums[n-1].Messages += l.Messages
			sums[n-1].Bytes += l.Bytes
		} else {
			sums = append(sums, l)
		}
	}
	return sums
}

// longText returns, in one line, which protocols the long messages of each length took, if a tenth or more did. It is empty if
// there are none.
func (t *Table) longText() string {
	var parts []string
	transport := ""
	for rest := t.Long; len(rest) > 0; {
		n := 1
		for n < len(rest) && compareLength(rest[0], rest[n]) == 0 {
			n++
		}
		same := slices.Clone(rest[:n])
		rest = rest[n:]
		var sum float64
		for _, l := range same {
			sum += float64(l.Messages)
		}
		text := formatLength(same[0].MaxBytes)
		if same[0].Transport != transport {
			transport = same[0].Transport
			text = transport + " " + text
		}
		slices.SortStableFunc(same, func(a, b jobs.LongMessages) int { return cmp.Compare(b.Messages, a.Messages) })
		for _, l := range same {
			if part := float64(l.Messages) / sum; part >= 0.1 {
				text += fmt.Sprintf(" %s %.0f%%", l.Protocol, 100*part)
			}
		}
		parts = append(parts, text)
	}
	if len(parts) == 0 {
		return ""
	}
	return "long messages: " + printable.Line(strings.Join(parts, ", ")) + "\n"
}

// formatLength formats a class of lengths as its largest one, such as 64K; >64M is the class without a limit.
func formatLength(maxBytes int) string {
	switch {
	case maxBytes < 0:
		return ">" + formatLength(perf.LongestClass)
	case maxBytes >= 1<<20:
		return fmt.Sprintf("%dM", maxBytes>>20)
	}
	return fmt.Sprintf("%dK", maxBytes>>10)
}
