package perftest

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// samples are reports of perftest 4.5 on a Soft-RoCE device, by the name of the file in testdata.
var samples = map[string]Report{
	"send_lat":  {Settings{Depth: 1, Moderation: 1, MTU: 1024}, 8, 1000, 11.86},
	"write_bw":  {Settings{Depth: 100, Moderation: 1, MTU: 1024}, 65536, 100, 12.62 * (1 << 20) / 1e6},
	"read_bw":   {Settings{Depth: 100, Moderation: 1, MTU: 1024}, 65536, 100, 11.72 * (1 << 20) / 1e6},
	"atomic_bw": {Settings{Depth: 100, Moderation: 100, MTU: 1024}, 8, 100, 0.026294 * 8},
}

func load(t testing.TB, name string) (Op, string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	op, err := Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return op, string(text)
}

func TestParseReport(t *testing.T) {
	for name, want := range samples {
		op, text := load(t, name)
		for _, text := range []string{text, "Waiting\n" + strings.ReplaceAll(text, "MB/sec", "MiB/sec") + "\nbye"} {
			got, err := op.ParseReport(text)
			if math.Abs(got.Figure-want.Figure) < 1e-9 {
				got.Figure = want.Figure
			}
			if err != nil || got != want {
				t.Errorf("%s: %+v, %v; want %+v", name, got, err, want)
			}
		}
	}
}

func TestParseReportInline(t *testing.T) {
	op, text := load(t, "send_lat")
	r, err := op.ParseReport(strings.Replace(text, "data : 0[B]", "data : 236[B]", 1))
	if err != nil || r.Inline != 236 {
		t.Errorf("inline %d, %v; want 236", r.Inline, err)
	}
}

func TestParseReportPrefixes(t *testing.T) {
	for name := range samples {
		op, text := load(t, name)
		for i := range text {
			if r, err := op.ParseReport(text[:i]); err == nil {
				t.Fatalf("%s: the first %d bytes parse as %+v; want an error", name, i, r)
			}
		}
	}
}

func TestParseReportRefuses(t *testing.T) {
	op, text := load(t, "send_lat")
	bw, bwText := load(t, "write_bw")
	for name, c := range map[string]struct {
		op    Op
		text  string
		clock bool
	}{
		"infinite":      {op, strings.Replace(text, "11.86  ", "inf    ", 1), true},
		"no number":     {op, strings.Replace(text, "11.86  ", "-nan   ", 1), true},
		"nothing":       {bw, strings.Replace(bwText, "12.62", "0.00", 1), true},
		"negative":      {op, strings.Replace(text, "11.86", "-1.00", 1), false},
		"a word":        {op, strings.Replace(text, "11.86", "eleven", 1), false},
		"a cell less":   {op, strings.Replace(text, "11.86", "", 1), false},
		"other table":   {bw, text, false},
		"no depth":      {bw, strings.Replace(bwText, "TX depth        : 100", "TX depth        : 0", 1), false},
		"depth in text": {bw, strings.Replace(bwText, "TX depth        : 100", "TX depth        : many", 1), false},
	} {
		if r, err := c.op.ParseReport(c.text); err == nil || errors.Is(err, ErrClock) != c.clock {
			t.Errorf("%s: %+v, %v; want an error; ErrClock: %v", name, r, err, c.clock)
		}
	}
}

func FuzzParseReport(f *testing.F) {
	for name := range samples {
		_, text := load(f, name)
		f.Add(name, text)
	}
	f.Fuzz(func(t *testing.T, name, text string) {
		op, err := Lookup(name)
		if err != nil {
			return
		}
		r, err := op.ParseReport(text)
		bad := !(r.Figure > 0 && r.Figure < math.Inf(1)) || r.Depth < 1 || r.Moderation < 1 || r.Size < 0 || r.Iterations < 0
		if err == nil && bad {
			t.Errorf("%+v is not a valid report", r)
		}
	})
}
