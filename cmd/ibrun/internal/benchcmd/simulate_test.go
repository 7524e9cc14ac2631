package benchcmd

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/mpi/simulate"
)

// TestSimulate: there is a line for each algorithm and size; that in use is marked, and can be asked for alone.
func TestSimulate(t *testing.T) {
	out := runCommand(t, "", nil, "simulate", "allreduce,barrier", "--ranks", "16", "--ranks-per-node", "4", "--sizes", "8,1K",
		"--json")
	lines := strings.Split(strings.TrimSpace(out.stdout), "\n")
	if out.code != 0 || len(lines) != 12 {
		t.Fatalf("exit %d\n%s%s", out.code, out.stdout, out.stderr)
	}
	for _, line := range lines {
		var x simulate.Result
		if err := json.Unmarshal([]byte(line), &x); err != nil || x.Ranks != 16 || x.RanksPerNode != 4 || x.Time <= 0 {
			t.Errorf("%v: %s", err, line)
		}
	}
	out = runCommand(t, "", nil, "simulate", "bcast", "--ranks", "16", "--used", "--latency", "10ms")
	if out.code != 0 || strings.Count(out.stdout, "\n") != 3 || !strings.Contains(out.stdout, "* binomial") ||
		!strings.Contains(out.stdout, "10ms and 25 GB/s between nodes") {
		t.Errorf("exit %d\n%s%s", out.code, out.stdout, out.stderr)
	}
	out = runCommand(t, "", nil, "simulate", "alltoall", "--ranks", "64", "--memory", "1M")
	if out.code != 0 || !strings.Contains(out.stdout, "not run: it needs") {
		t.Errorf("exit %d\n%s%s", out.code, out.stdout, out.stderr)
	}
	for _, args := range []string{"bcast --compare 1", "bcast --compare 2 --time 0s", "bcast --cores -1", "", "sum",
		"bcast --ranks 1", "bcast --sizes 0", "bcast --bandwidth 0"} {
		out := runCommand(t, "", nil, append([]string{"simulate"}, strings.Fields(args)...)...)
		if out.code == 0 || out.stderr == "" {
			t.Errorf("%q: exit %d, %s", args, out.code, out.stdout)
		}
	}
}

// TestSimulationError: an error is a factor, above or below.
func TestSimulationError(t *testing.T) {
	median, worst, at := simulationError([]comparedRun{{Ranks: 2, Ratio: 0.25}, {Ranks: 4, Ratio: 2}, {Ratio: 1}, {Ratio: 1}})
	if median != 1.5 || worst != 4 || at.Ranks != 2 {
		t.Errorf("median %v, worst %v of %+v", median, worst, at)
	}
}
