package launch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestBar(t *testing.T) {
	p := &Progress{Done: 450, Total: 1000, Remaining: 70*time.Second + 300*time.Millisecond}
	for columns, want := range map[int]string{
		100: "[==================                      ] 45 % (450 of 1000), about 1m10s left",
		54:  "[======        ] 45 % (450 of 1000), about 1m10s left",
		20:  "45 % (450 of 1000),",
		1:   "",
		0:   "",
	} {
		if got := progressBar(p, columns); got != want || len(got) > max(columns-1, 0) {
			t.Errorf("in %d columns %q, want %q", columns, got, want)
		}
	}
	if got := progressBar(&Progress{}, 80); !strings.HasPrefix(got, "[   ") {
		t.Errorf("of nothing: %q", got)
	}
}

// TestBarBelowOutput: the bar stands below what ranks write, never within a line of theirs, and goes in the end.
func TestBarBelowOutput(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "terminal"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	k := &lineWriter{file: f, showPartial: true}
	s := &source{output: newRankOutput(0, false), writer: k}
	write := func(text string) {
		if err := s.write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	write("one\n")
	k.setBar("BAR 1")
	write("two\nhalf of ")
	k.setBar("BAR 2") // waits
	write("three\n")
	k.endBar()
	k.setBar("BAR 3") // too late
	write("four\n")
	got, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	const want = "one\nBAR 1\x1b[K\r\x1b[Ktwo\nhalf of three\nBAR 2\x1b[K\r\x1b[Kfour\n"
	if string(got) != want {
		t.Errorf("the terminal got %q, want %q", got, want)
	}
}

// TestMeter: what is shown is news, in lines at most one in a while, and the last one when all is over.
func TestMeter(t *testing.T) {
	at := func(seconds int) time.Time { return time.Unix(int64(1000+seconds), 0) }
	show := func(p *Progress) string {
		if p == nil {
			return ""
		}
		return p.String()
	}
	m := progressFilter{asLines: true}
	for _, c := range []struct {
		second int
		done   uint64
		total  uint64
		want   string
	}{
		{0, 0, 0, ""}, // nobody reports
		{1, 10, 100, "10 % (10 of 100)"},
		{2, 20, 100, ""}, // too soon
		{6, 60, 100, "60 % (60 of 100), about 4s left"},
		{60, 60, 100, ""},              // no news
		{61, 5, 100, "5 % (5 of 100)"}, // another part of the program
		{62, 9, 100, ""},
	} {
		if got := show(m.next(Progress{Done: c.done, Total: c.total}, at(c.second))); got != c.want {
			t.Errorf("after %d s %q, want %q", c.second, got, c.want)
		}
	}
	if got := show(m.last(Progress{Done: 9, Total: 100})); got != "9 % (9 of 100)" {
		t.Errorf("in the end %q", got)
	}
	if p := (&progressFilter{asLines: true}).last(Progress{}); p != nil {
		t.Errorf("of no progress in the end: %v", p)
	}
	var bar progressFilter
	for i := range 3 {
		if p := bar.next(Progress{Done: uint64(i), Total: 9}, at(0)); p == nil || p.Done != uint64(i) {
			t.Errorf("a bar is not drawn for %d", i)
		}
	}
}
