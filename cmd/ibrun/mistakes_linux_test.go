package main

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// Mistakes that end with text of the Go runtime, which ibrun forwards: what is asked of standard error is asked of ibrun's own
// lines.
var crashes = []string{"panic", "stack overflow"}

// quickMistakes are the ones that run without IBRUN_SOAK: one of each kind, without those that wait for a time-out.
var quickMistakes = []string{"lengths", "order", "type of a message", "exit 3", "never received", "interleaved communicators"}

var (
	namesRank = regexp.MustCompile(`\branks? [(\d]`)
	namesCall = regexp.MustCompile(`mpi: \w+|its last call was \w+|in [A-Z]\w+|called Abort`)
	namesLine = regexp.MustCompile(`\bibrun/mistakes_test\.go:\d+`)
)

// TestMistakes: each program with a mistake ends within 15 s, with an exit code that is not 0; the first three lines of standard
// error name a rank, the call and the source line. All run with IBRUN_SOAK=1, and with the default of --deadlock-report.
func TestMistakes(t *testing.T) {
	names := quickMistakes
	args := []string{"-n", "2", "--check", "--deadlock-report", "300ms"}
	if os.Getenv("IBRUN_SOAK") != "" {
		names, args = slices.Sorted(maps.Keys(mistakes)), args[:3]
	}
	t.Logf("%d of %d mistakes", len(names), len(mistakes))
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			p := startJob(t, 0, append(slices.Clone(args), "rank", "mistake", name)...)
			code, took := p.wait(), time.Since(began)
			text := p.stderrText()
			lines := strings.Split(text, "\n")
			if slices.Contains(crashes, name) {
				lines = slices.DeleteFunc(lines, func(line string) bool {
					return !strings.HasPrefix(line, "ibrun: ") || strings.HasPrefix(line, "ibrun:   | ")
				})
			}
			first := strings.Join(lines[:min(3, len(lines))], "\n")
			if code == 0 || took > 15*time.Second || !namesRank.MatchString(first) || !namesCall.MatchString(first) ||
				!namesLine.MatchString(first) {
				t.Errorf("it ended with %d after %v:\n%.3000s", code, took, text)
			}
			if pids := p.alive(); len(pids) > 0 {
				t.Errorf("processes %v remain", pids)
			}
		})
	}
}
