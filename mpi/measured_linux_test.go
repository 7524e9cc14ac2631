//go:build !race

package mpi_test

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/internal/needtest"
	"github.com/ibrun/ibrun/internal/pmi"
	"github.com/ibrun/ibrun/internal/soaktest"
)

// These tests measure what the race detector would change: memory, to which it adds its own, and how long messages take each
// way, which it makes unequal.

// TestFlood sends a receiver that does not receive more than it may keep, over connections.
func TestFlood(t *testing.T) { floods(t, "tcp") }

// TestTimeNamespaces: two nodes whose clocks are an hour apart have one Wtime, with a processor for each rank and with fewer.
// With IBRUN_SOAK=1 a million messages go each way between any two ranks; clocks count as synchronized
// only if no rank was delayed during initialisation, so it is repeated until they do.
func TestTimeNamespaces(t *testing.T) {
	unshare := needtest.Namespaces(t, "--time", "--monotonic", "3600")
	t.Setenv("IBRUN_TCP_INTERFACES", "lo")
	t.Attr("namespaces", "time")
	const tries = 50
	again := func(try int, end, output string) bool {
		if soaktest.On() {
			return try <= tries && end == "" && strings.Contains(output, "global false")
		}
		// Clocks may differ by half of the fastest round trip that was measured. On a busy machine all of the first ones may be
		// slow, and a later message faster than that. So another job is tried.
		return try <= 9 && (strings.Contains(output, " ns later") || strings.Contains(output, " is off by ") ||
			strings.Contains(output, "came to the barrier"))
	}
	var wrong []string
	for _, size := range []int{2, 4} {
		var end, output string
		var exits []int
		for try := 1; try == 1 || again(try, end, output); try++ {
			end, exits, output = launchJob(t, pmi.Job{Size: size}, 2, "order", func(rank int, c *exec.Cmd) {
				if rank >= size/2 {
					wrapCommand(t, c, unshare, "--time", "--monotonic", "3600", "--boottime", "3600")
				}
			})
		}
		t.Logf("%d ranks:\n%s", size, output)
		if end != "" || slices.Max(exits) != 0 || soaktest.On() && strings.Contains(output, "global false") {
			wrong = append(wrong, fmt.Sprintf("%d ranks: ended with %q, codes %v", size, end, exits))
		}
	}
	for _, id := range []string{"S0-33", "S0-32", "S0-37", "S1-15"} {
		t.Run(id, func(t *testing.T) {
			for _, w := range wrong {
				t.Error(w)
			}
		})
	}
}
