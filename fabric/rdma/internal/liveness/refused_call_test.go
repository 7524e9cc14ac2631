package liveness

import (
	"testing"
	"time"
)

// TestRefusedCall: a call that is refused is made again after pauses, for as often and as long as
// LastsTooLong says. A call that is carried out starts again.
func TestRefusedCall(t *testing.T) {
	var r RefusedCall
	now := time.Second
	for n := int16(1); ; n++ {
		if r.Waits(now) {
			t.Fatalf("the call waits at %v: %+v", now, r)
		}
		if r.Refused(now) {
			if !LastsTooLong(n, now-time.Second) {
				t.Errorf("given up after %d refusals in %v", n, now-time.Second)
			}
			break
		}
		if r.Refusals != n || r.Since != time.Second || r.At != now+RetryPause(n) || !r.Waits(now) {
			t.Fatalf("after %d refusals: %+v", n, r)
		}
		now = r.At
	}
	r.End()
	if r.Waits(0) || r.Refusals != 0 || r.At != 0 {
		t.Errorf("after the call was carried out: %+v", r)
	}
	r.Refused(now)
	if r.Since != now {
		t.Errorf("the next refusals begin at %v, want %v", r.Since, now)
	}
}
