package leakcheck

import (
	"os"
	"strings"
	"testing"
	"time"
)

// recorder is a test that records its errors.
type recorder struct {
	testing.TB
	failed string
}

// Deadline makes Compare wait a tenth of a second at most, for what never ends here.
func (r *recorder) Deadline() (time.Time, bool) { return time.Now().Add(8 * time.Second / 10), true }

func (r *recorder) Failed() bool { return r.failed != "" }

func (r *recorder) Errorf(format string, _ ...any) { r.failed = format }

func (r *recorder) Helper() {}

func TestCompare(t *testing.T) {
	before := Take(t, Files)
	before.Compare(t)
	r := &recorder{TB: t}
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if before.counts = func([]byte) bool { return false }; !count(t, before.counts).exceeds(before) {
		t.Error("two open descriptors are not noticed")
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if err := out.Close(); err != nil {
		t.Error(err)
	}
	stop := make(chan bool)
	for range 100 { // more than those of earlier tests that were about to end when before was taken
		go func() { <-stop }()
	}
	before.Compare(r)
	close(stop)
	if !strings.Contains(r.failed, "leaks") {
		t.Error("goroutines that run on are not noticed")
	}
	before.Compare(t)
}

func TestFiles(t *testing.T) {
	for line, want := range map[string]bool{
		"7f00-7f01 r-xp 00000000 08:01 1234 /usr/lib/libc.so": true, "7f00-7f01 rw-p 00000000 00:00 0": false, "": false,
	} {
		if got := Files([]byte(line)); got != want {
			t.Errorf("%q: %v", line, got)
		}
	}
}
