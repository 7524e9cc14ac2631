package processor

import (
	"testing"
	"time"
)

// TestYieldPause: slow yields that take most of the time begin a pause, whose length is a multiple
// of the last one. Fewer of them do not, and the time before a pause does not matter for long.
func TestYieldPause(t *testing.T) {
	const took = 3 * time.Millisecond
	var y Yielder
	now := time.Hour // this process has not run so long
	if y.Paused() {
		t.Error("paused before the first yield")
	}
	yieldAfter := func(between time.Duration) bool {
		t.Helper()
		if y.Paused() {
			t.Fatal("it yields in a pause")
		}
		begin := now + between
		now = begin + took
		y.Measured(begin, now)
		return y.Paused()
	}
	for range 100 {
		y.Measured(now, now+slowYield-1)
	}
	if y.slow != 0 || y.Paused() {
		t.Errorf("quick yields count as slow ones that took %v", y.slow)
	}
	for n := range 100 {
		if yieldAfter(2 * took) {
			t.Fatalf("paused after %d yields that take a third of the time", n+1)
		}
	}
	for range 2 { // the second time immediately after the pause
		n := 1
		for !yieldAfter(took / 2) {
			if n++; n > 20 {
				t.Fatalf("not paused after %d yields that take two thirds of the time", n)
			}
		}
		end := now + yieldPause*took
		for _, at := range []time.Duration{now, end - 1} {
			if !y.pausedAt(at) {
				t.Errorf("not paused %v after a yield of %v", at-now, took)
			}
		}
		if y.pausedAt(end) {
			t.Errorf("still paused %v after a yield of %v", end-now, took)
		}
		now = end
	}
	if !yieldAfter(took) {
		t.Error("the first slow yield after a pause begins no pause")
	}
	if now += yieldPause * took; y.pausedAt(now) {
		t.Error("still paused")
	}
	for n := 0; yieldAfter(time.Second); n++ { // the others do not compute any more
		if now += yieldPause * took; n > 4 || y.pausedAt(now) {
			t.Fatalf("paused after %d yields that take next to no time", n+1)
		}
	}
	y.Measured(now-2*took, now-took) // it ended before the last one
	if y.between < 0 {
		t.Errorf("the time between slow yields is %v", y.between)
	}
}
