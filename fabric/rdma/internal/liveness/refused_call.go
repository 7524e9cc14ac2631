package liveness

import "time"

// RefusedCall decides when a call that the device refuses is made again, and when that has lasted
// too long. The zero RefusedCall has no refusals.
type RefusedCall struct {
	Refusals int16         // in a row
	Since    time.Duration // of the first of them
	At       time.Duration // when the call is made again; 0: at once
}

// Waits reports whether the call is not to be made yet.
func (r *RefusedCall) Waits(now time.Duration) bool { return r.Refusals > 0 && now < r.At }

// Refused records that the call was refused again. It reports whether that lasts too long.
func (r *RefusedCall) Refused(now time.Duration) (tooLong bool) {
	if r.Refusals == 0 {
		r.Since = now
	}
	if r.Refusals++; LastsTooLong(r.Refusals, now-r.Since) {
		return true
	}
	r.At = now + RetryPause(r.Refusals)
	return false
}

// End records that the call was carried out.
func (r *RefusedCall) End() { r.Refusals, r.At = 0, 0 }
