//go:build linux

package rdma

import (
	"testing"
	"time"

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
	c.stride, c.readAt = minStride, c.polls+minStride
	rarely := func(polls int) (ran time.Duration) {
		before := c.ran
		for range polls {
			c.start = c.start.Add(-100 * time.Millisecond)
			pollTimes(t, d, 1)
		}
		return c.ran - before
	}
	rarely(2 * minStride)
	if got, want := rarely(100), 100*100*time.Millisecond; got < want {
		t.Errorf("100 Polls took %v or more, and %v of that counts", want, got)
	}
	waittest.Poll(t, "a fast Poll ends that", func() bool {
		c.start = c.start.Add(c.elapsed() - c.now) // as if no time had passed
		pollTimes(t, d, 1)
		return c.stride >= minStride && d.fastPolls == maxFastPolls
	})
}

// TestClockStride: after how many Polls the clock is read next, by the time since it was read last.
func TestClockStride(t *testing.T) {
	for _, at := range []struct {
		stride uint
		since  time.Duration
		want   uint
	}{
		{0, 0, minStride},
		{0, 2 * time.Second, 1},
		{1, time.Second, 1},
		{1, 0, minStride},
		{minStride, 0, 2 * minStride},
		{maxStride, 0, maxStride},
		{minStride, 60 * time.Millisecond, minStride}, // there was a pause, or all Polls were slower than usual
		{minStride, 65 * time.Millisecond, 1},
		{maxStride, time.Second, minStride},
		{maxStride, 2 * time.Second, 1},
	} {
		if got := nextStride(at.stride, at.since); got != at.want {
			t.Errorf("%v after a read, before which were %d Polls: the next is after %d Polls, want %d", at.since, at.stride, got,
				at.want)
		}
	}
}
