package liveness

import (
	"testing"
	"time"
)

// TestClockStride: after how many Polls the clock is read next, by the time since it was read last.
func TestClockStride(t *testing.T) {
	for _, at := range []struct {
		stride uint
		since  time.Duration
		want   uint
	}{
		{0, 0, MinStride},
		{0, 2 * time.Second, 1},
		{1, time.Second, 1},
		{1, 0, MinStride},
		{MinStride, 0, 2 * MinStride},
		{MaxStride, 0, MaxStride},
		{MinStride, 60 * time.Millisecond, MinStride}, // there was a pause, or all Polls were slower than usual
		{MinStride, 65 * time.Millisecond, 1},
		{MaxStride, time.Second, MinStride},
		{MaxStride, 2 * time.Second, 1},
	} {
		if got := nextStride(at.stride, at.since); got != at.want {
			t.Errorf("%v after a read, before which were %d Polls: the next is after %d Polls, want %d", at.since, at.stride, got,
				at.want)
		}
	}
}
