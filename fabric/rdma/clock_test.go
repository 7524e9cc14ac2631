//go:build linux

package rdma

import (
	"testing"
	"time"

	"github.com/ibrun/ibrun/fabric/rdma/internal/liveness"
	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/verbs/verbstest"
)

// TestRarePolls: a process polls rarely, and does not sleep in Arm. Once the estimate from before has run out, it reads the clock
// in each Poll, also if it has nothing to do. So all of that time counts as time in which it has run. A fast Poll ends that.
func TestRarePolls(t *testing.T) {
	ds := openRails(t, verbstest.NewSimulatedNetwork(), Settings{Heartbeat: time.Hour}, 1)
	connectPeers(t, ds[0], ds[1])
	d := ds[0]
	c := &d.clock
	c.Stride, c.ReadAt = liveness.MinStride, c.Polls+liveness.MinStride
	rarely := func(polls int) (ran time.Duration) {
		before := c.Ran
		for range polls {
			c.Start = c.Start.Add(-100 * time.Millisecond)
			pollTimes(t, d, 1)
		}
		return c.Ran - before
	}
	rarely(2 * liveness.MinStride)
	if got, want := rarely(100), 100*100*time.Millisecond; got < want {
		t.Errorf("100 Polls took %v or more, and %v of that counts", want, got)
	}
	waittest.Poll(t, "a fast Poll ends that", func() bool {
		c.Start = c.Start.Add(c.Elapsed() - c.Now) // as if no time had passed
		pollTimes(t, d, 1)
		return c.Stride >= liveness.MinStride && d.clock.FastPolls == maxFastPolls
	})
}
