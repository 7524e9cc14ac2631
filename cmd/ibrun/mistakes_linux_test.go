package main

import (
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/internal/waittest"
)

// Mistakes that end with text of the Go runtime, which ibrun forwards: what is asked of standard error is asked of ibrun's own
// lines.
var crashes = []string{"panic", "stack overflow"}

// quickMistakes are the ones that run without IBRUN_SOAK: one of each kind, without those that wait for a time-out.
var quickMistakes = []string{"lengths", "order", "type of a message", "exit 3", "never received", "interleaved communicators",
	"both receive, a goroutine sleeps"}

var (
	namesRank = regexp.MustCompile(`\branks? [(\d]`)
	namesCall = regexp.MustCompile(`mpi: \w+|its last call was \w+|in [A-Z]\w+|called Abort`)
	namesLine = regexp.MustCompile(`\bibrun/mistakes_test\.go:\d+`)
)

// TestMistakes: each program with a mistake ends, with an exit code that is not 0; the first three lines of standard error name a
// rank, the call and the source line. All run with IBRUN_SOAK=1, and with the default of --deadlock-report. Then each must end
// within 15 s.
func TestMistakes(t *testing.T) {
	t.Parallel()
	names := quickMistakes
	args := []string{"-n", "2", "--check", "--deadlock-report", "300ms"}
	if soaktest.On() {
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
			soon := soaktest.Choose(15*time.Second, waittest.Limit)
			if code == 0 || took > soon || !namesRank.MatchString(first) || !namesCall.MatchString(first) ||
				!namesLine.MatchString(first) {
				t.Errorf("it ended with %d after %v:\n%.3000s", code, took, text)
			}
			if pids := p.alive(); len(pids) > 0 {
				t.Errorf("processes %v remain", pids)
			}
		})
	}
}

// TestCheckDiffers: ranks that differ in whether they check their calls do not start.
func TestCheckDiffers(t *testing.T) {
	t.Parallel()
	p := startJob(t, 0, "-n", "1", "-x", "IBRUN_CHECK=1", "rank", "mistake", "lengths", ":", "-n", "1", "rank", "mistake", "lengths")
	p.wantCode(1, "some processes check their calls, and others do not")
}

// TestDeadlockReport: without --check a deadlock is reported, but not for every sample, and the job goes on.
func TestDeadlockReport(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("ibrun", "-n", "2", "--deadlock-report", "200ms", "--grace", "0", "rank", "mistake", "both receive")
	cmd.Env = []string{"IBRUN_CHECK=0"}
	p := startCommand(t, 0, cmd)
	p.eventually("no report", func() bool {
		text := p.stderrText()
		return strings.Contains(text, "every rank has waited for another for 200ms; the job goes on") &&
			strings.Contains(text, "deadlock, each rank waits for the next: 0 -> 1 -> 0")
	})
	waittest.Elapse(t, 3*time.Second, "one report for every sample of the ranks would be at least eight")
	if len(p.alive()) < 4 { // ibrun, agent and ranks
		t.Error("the job has not gone on")
	}
	p.signal(p.cmd.Process.Pid, syscall.SIGTERM)
	p.wait()
	if n := strings.Count(p.stderrText(), "every rank has waited"); n >= 8 { // ranks that were busy for a moment wait anew
		t.Errorf("%d reports:\n%s", n, p.stderrText())
	}
}

// comparedMistakes are those that ranks on one node find without --check: what standard error says.
var comparedMistakes = map[string]string{
	"lengths":    "Allreduce of 11 elements of float64 (sum) (rank 1)",
	"operations": "Allreduce of 10 elements of float64 (max) (rank 1)",
	"types":      "Bcast of 4 elements of int64 with root 0 (rank 1)",
	"order":      "Bcast of 4 elements of int64 with root 0 (rank 1)",
}

// TestMistakesUnchecked: without --check ranks that share memory find collectives that differ. The job fails, and the error
// names both ranks.
func TestMistakesUnchecked(t *testing.T) {
	t.Parallel()
	for name, says := range comparedMistakes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startJob(t, 0, "-n", "2", "-x", "IBRUN_CHECK=0", "--deadlock-report", "0", "rank", "mistake", name)
			p.wantCode(1, says)
			for _, part := range []string{"(rank 0)", "Run with ibrun --check for the source lines"} {
				if !strings.Contains(p.stderrText(), part) {
					t.Errorf("want %q in:\n%s", part, p.stderrText())
				}
			}
		})
	}
}

// TestMistakesNodes: over two nodes --check names the ranks and lines of both.
func TestMistakesNodes(t *testing.T) {
	t.Parallel()
	ns := newNodes(t, 2).start(0, "-n", "2", "--check", "rank", "mistake", "lengths")
	for _, p := range ns.list {
		p.wantCodeOnly(1)
	}
	text := ns.list[0].stderrText() + ns.list[1].stderrText()
	want := `Allreduce of 11 elements of float64 \(sum\) at \S*ibrun/mistakes_test\.go:\d+ \(rank 1\) against ` +
		`Allreduce of 10 elements of float64 \(sum\) at \S*ibrun/mistakes_test\.go:\d+ \(rank 0\)`
	if !regexp.MustCompile(want).MatchString(text) {
		t.Errorf("want %q in:\n%s", want, text)
	}
}

// TestDeadlockReportNodes: node 0 reports a deadlock of ranks on two nodes. With --check the job ends.
func TestDeadlockReportNodes(t *testing.T) {
	t.Parallel()
	ns := newNodes(t, 2).start(0, "-n", "2", "--check", "--deadlock-report", "1s", "rank", "mistake", "both receive")
	for _, p := range ns.list {
		p.wantCodeOnly(1)
	}
	text := ns.list[0].stderrText()
	for _, want := range []string{
		"deadlock: every rank has waited for another for 1s", "rank 0 on n0: in Recv from rank 1", "rank 1 on n1: in Recv from rank 0",
		"deadlock, each rank waits for the next: 0 -> 1 -> 0", "the job was ended because its ranks are deadlocked (--check)",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("want %q in:\n%s", want, text)
		}
	}
}
