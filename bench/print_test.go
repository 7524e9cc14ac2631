package bench

import (
	"errors"
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	var b strings.Builder
	op, err := Lookup("mbw_mr")
	if err != nil {
		t.Fatal(err)
	}
	table := NewTable(&b, op, Config{Percentiles: true, Validate: true})
	for _, r := range []Result{
		{Ranks: 4, Size: 8, Value: 7.5e6, Iterations: 100, Percentiles: &Percentiles{8e6, 7e6, 123.456}},
		{Ranks: 4, Size: 1 << 20, Value: 99.5, Iterations: 3, Percentiles: &Percentiles{1, 0.25, 0.0625}, Wrong: 12},
	} {
		if err := table.Row(r); err != nil {
			t.Fatal(err)
		}
	}
	want := `# mbw_mr: message rate of many pairs of ranks, 4 ranks
        size  mbw_mr msg/s        MB/s         p50         p90         p99  iterations        data
         8 B       7500000       60.00     8000000     7000000       123.5         100       right
       1 MiB         99.50       104.3       1.000       0.250       0.062           3    12 WRONG
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestFormatSize(t *testing.T) {
	for n, want := range map[int]string{
		0: "0 B", 8: "8 B", 1000: "1000 B", 1024: "1 KiB", 1536: "1536 B", 4 << 20: "4 MiB", 1 << 50: "1024 TiB",
	} {
		if got := FormatSize(n); got != want {
			t.Errorf("FormatSize(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestPlot(t *testing.T) {
	var rs []Result
	for _, size := range Ladder(1, 1<<20) {
		rs = append(rs, Result{Op: "latency", Ranks: 2, Size: size, Unit: Microseconds, Value: 0.1 + float64(size)/1e4})
	}
	var b strings.Builder
	if err := Plot(&b, rs, 70); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1 B", "1 MiB", "0.100", "105.0", "latency among 2 ranks, us over message size"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the plot does not show %q:\n%s", want, b.String())
		}
	}
	for line := range strings.Lines(b.String()) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > 70 {
			t.Errorf("a line has %d characters, more than 70: %q", n, line)
		}
	}
	b.Reset()
	if err := Plot(&b, rs[:1], 70); err != nil || b.Len() != 0 {
		t.Errorf("one result was drawn: %q, %v", b.String(), err)
	}
}

type deadWriter struct{}

func (deadWriter) Write([]byte) (int, error) { return 0, errors.New("gone") }

func TestPrintErrors(t *testing.T) {
	op, err := Lookup("latency")
	if err != nil {
		t.Fatal(err)
	}
	if err := NewTable(deadWriter{}, op, Config{}).Row(Result{}); err == nil {
		t.Error("Table.Row hid an error of its writer")
	}
	if err := Plot(deadWriter{}, []Result{{Value: 1}, {Value: 2}}, 80); err == nil {
		t.Error("Plot hid an error of its writer")
	}
}
