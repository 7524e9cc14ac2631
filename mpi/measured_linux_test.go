//go:build !race

package mpi_test

import (
	"os/exec"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/internal/pmi"
)

// These tests measure what the race detector would change: memory, to which it adds its own, and how long messages take each
// way, which it makes unequal.

// TestFlood sends a receiver that does not receive more than it may keep, over connections.
func TestFlood(t *testing.T) { floods(t, "tcp") }

// TestTimeNamespaces: two nodes whose clocks are an hour apart have one Wtime. With IBRUN_SOAK=1 a million messages go each way
// between any two of their ranks.
func TestTimeNamespaces(t *testing.T) {
	unshare := needs(t, "unshare")
	t.Setenv("IBRUN_TCP_INTERFACES", "lo")
	t.Attr("namespaces", "time")
	end, exits, output := launchJob(t, pmi.Job{Size: 4}, 2, "order", func(rank int, c *exec.Cmd) {
		if rank >= 2 {
			under(t, c, unshare, "--time", "--monotonic", "3600", "--boottime", "3600")
		}
	})
	for _, id := range []string{"S0-33", "S0-32", "S0-37", "S1-15"} {
		t.Run(id, func(t *testing.T) {
			if end != "" || slices.Max(exits) != 0 {
				t.Errorf("ended with %q, codes %v\n%s", end, exits, output)
			}
		})
	}
	t.Logf("\n%s", output)
}
