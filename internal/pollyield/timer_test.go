package pollyield

import (
	"testing"
	"time"
)

// TestAdapt: whatever the duration of a poll, the time between two yields becomes shorter than what the runtime allows, and not
// much shorter than needed.
func TestAdapt(t *testing.T) {
	const allowed = 10 * time.Millisecond
	for _, poll := range []time.Duration{5 * time.Nanosecond, 2 * time.Microsecond, 60 * time.Microsecond, time.Millisecond,
		3 * time.Millisecond} {
		var rising Timer
		rising.adapt(time.Hour) // since the zero time
		falling := Timer{threshold: maxPolls}
		for _, timer := range []*Timer{&rising, &falling} {
			between := time.Duration(0)
			for range 20 {
				between = time.Duration(timer.threshold+1) * poll
				timer.adapt(between)
			}
			if between < interval/2 || between >= allowed {
				t.Errorf("polls of %v: one yield every %v", poll, between)
			}
		}
	}
}

// TestBounds: neither polls that take no time nor polls that take very long exceed the bounds.
func TestBounds(t *testing.T) {
	var timer Timer
	for range 100 {
		timer.adapt(time.Hour)
	}
	if timer.threshold != minPolls {
		t.Errorf("threshold %d after long polls, want %d", timer.threshold, minPolls)
	}
	for range 100 {
		timer.adapt(0)
	}
	if timer.threshold != maxPolls {
		t.Errorf("threshold %d after short polls, want %d", timer.threshold, maxPolls)
	}
}

// TestReset: polls make a yield due. After Reset none is due for a while.
func TestReset(t *testing.T) {
	var timer Timer
	if timer.Poll(); !timer.Due() {
		t.Fatal("no yield is due after the first poll, when the duration of a poll is not known yet")
	}
	for range 10 {
		timer.Reset()
		for range minPolls {
			if timer.Due() {
				t.Fatalf("a yield is due after %d polls", timer.polls)
			}
			timer.Poll()
		}
		for !timer.Due() {
			timer.Poll()
		}
	}
}
