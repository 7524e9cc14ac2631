package pollyield

import (
	"testing"
	"time"
)

// TestAdapt: whatever a poll takes, breaths come to be taken at intervals below what the runtime allows, and not much more often
// than needed.
func TestAdapt(t *testing.T) {
	const allowed = 10 * time.Millisecond
	for _, poll := range []time.Duration{5 * time.Nanosecond, 2 * time.Microsecond, 60 * time.Microsecond, time.Millisecond,
		3 * time.Millisecond} {
		var rising Timer
		rising.adapt(time.Hour) // since the zero time
		falling := Timer{enough: most}
		for _, b := range []*Timer{&rising, &falling} {
			between := time.Duration(0)
			for range 20 {
				between = time.Duration(b.enough+1) * poll
				b.adapt(between)
			}
			if between < interval/2 || between >= allowed {
				t.Errorf("with polls of %v one every %v", poll, between)
			}
		}
	}
}

// TestBounds: neither polls that take no time nor any that take long lead out of the bounds.
func TestBounds(t *testing.T) {
	var b Timer
	for range 100 {
		b.adapt(time.Hour)
	}
	if b.enough != fewest {
		t.Errorf("%d polls after long ones, not %d", b.enough, fewest)
	}
	for range 100 {
		b.adapt(0)
	}
	if b.enough != most {
		t.Errorf("%d polls after short ones, not %d", b.enough, most)
	}
}

// TestReset: polls make one due, and after it none is for a while.
func TestReset(t *testing.T) {
	var b Timer
	if b.Poll(); !b.Due() {
		t.Fatal("the first poll tells nothing about the time, and so makes one due")
	}
	for range 10 {
		b.Reset()
		for range fewest {
			if b.Due() {
				t.Fatalf("due after %d polls", b.polls)
			}
			b.Poll()
		}
		for !b.Due() {
			b.Poll()
		}
	}
}
