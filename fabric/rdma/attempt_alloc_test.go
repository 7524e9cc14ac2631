//go:build linux

package rdma

import (
	"testing"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/alloctest"
)

// TestAttemptsAllocations: while many peers do not answer, because they compute, to look at them allocates nothing.
func TestAttemptsAllocations(t *testing.T) {
	_, ds := openSimulated(t, Settings{Devices: []string{"a"}, Heartbeat: 10 * time.Second}, 4)
	d := ds[0]
	for i := range ds[1:] {
		if err := d.eps[i+1].Send(nil, nil); err != fabric.ErrAgain {
			t.Fatal(err)
		}
	}
	pollTimes(t, d, progressEvery)
	for i := range d.cm.connecting.Len() {
		e := d.cm.connecting.Of(i)
		e.attempt.since -= maxOverdue
	}
	const runs = 10
	found := 0
	count := func(int, Attempt) { found++ }
	if n := alloctest.Count(runs, func() { d.takeover.Attempts(count) }); n != 0 {
		t.Errorf("%v allocations for %d peers", n, len(ds)-1)
	}
	if found != alloctest.Calls(runs)*(len(ds)-1) {
		t.Errorf("%d attempts are reported", found)
	}
}
