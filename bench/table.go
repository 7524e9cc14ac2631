package bench

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Table prints results as rows of a table with units, each as soon as it is known. It belongs to one goroutine.
type Table struct {
	w       io.Writer
	head    string
	columns []column
}

type column struct {
	title string
	cell  func(Result) string
}

const minColumnWidth = 10 // characters

// NewTable prepares a table for the results of one operation measured with cfg.
func NewTable(w io.Writer, op Op, cfg Config) *Table {
	t := &Table{w: w, head: op.Name + ": " + op.About}
	if cfg.Written {
		t.head += "; each message is written before it is sent"
	}
	t.add("size", func(r Result) string { return FormatSize(r.Size) })
	unit := " " + string(op.Unit)
	if op.Collective() {
		t.add("mean"+unit, func(r Result) string { return FormatFigure(r.Value) })
		t.add("fastest", func(r Result) string { return FormatFigure(r.Fastest) })
		t.add("slowest", func(r Result) string { return FormatFigure(r.Slowest) })
	} else {
		t.add(op.Name+unit, func(r Result) string { return FormatFigure(r.Value) })
	}
	if op.Unit == MessagesPerSecond {
		t.add("MB/s", func(r Result) string { return FormatFigure(r.Value * float64(r.Size) / 1e6) })
	}
	if cfg.Percentiles {
		t.add("p50", func(r Result) string { return FormatFigure(r.Percentiles.P50) })
		t.add("p90", func(r Result) string { return FormatFigure(r.Percentiles.P90) })
		t.add("p99", func(r Result) string { return FormatFigure(r.Percentiles.P99) })
	}
	t.add("iterations", func(r Result) string { return strconv.Itoa(r.Iterations) })
	if cfg.Validate {
		t.add("data", func(r Result) string {
			if r.Wrong > 0 {
				return fmt.Sprintf("%d WRONG", r.Wrong)
			}
			return "right"
		})
	}
	return t
}

func (t *Table) add(title string, cell func(Result) string) {
	t.columns = append(t.columns, column{title, cell})
}

// Row prints one result; the first also the head of the table. The result must carry what the table's configuration
// asked for.
func (t *Table) Row(r Result) error {
	var b strings.Builder
	if t.head != "" {
		fmt.Fprintf(&b, "# %s, %d ranks\n", t.head, r.Ranks)
		for i, c := range t.columns {
			t.cell(&b, i, c.title)
		}
		t.head = ""
	}
	for i, c := range t.columns {
		t.cell(&b, i, c.cell(r))
	}
	if _, err := io.WriteString(t.w, b.String()); err != nil {
		return fmt.Errorf("bench: writing the table: %w", err)
	}
	return nil
}

// cell appends the i-th cell of a line, right-aligned.
func (t *Table) cell(b *strings.Builder, i int, text string) {
	fmt.Fprintf(b, "%*s", max(minColumnWidth, len(t.columns[i].title))+2, text)
	if i == len(t.columns)-1 {
		b.WriteByte('\n')
	}
}

// FormatFigure writes a figure with as many decimals as it deserves: at least three digits, never an exponent.
func FormatFigure(v float64) string {
	switch {
	case v >= 1000:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 100:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'f', 3, 64)
}
