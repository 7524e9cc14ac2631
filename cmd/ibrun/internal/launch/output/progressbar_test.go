package output

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
)

func TestBar(t *testing.T) {
	p := &protocol.Progress{Done: 450, Total: 1000, Remaining: 70*time.Second + 300*time.Millisecond}
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
	if got := progressBar(&protocol.Progress{}, 80); !strings.HasPrefix(got, "[   ") {
		t.Errorf("without progress: %q", got)
	}
}

// TestBarBelowOutput: the bar is drawn below the output of ranks, never within a line of theirs, and is erased at the end.
func TestBarBelowOutput(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "terminal"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	k := &Writer{file: f, showPartial: true}
	s := &Source{Origin: NewRank(0, "h", false), Writer: k}
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
