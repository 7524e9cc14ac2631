package liveness

import "time"

// Retry decides when a call that the device refuses is made again, and when that has lasted too
// long. The zero Retry has no refusals.
type Retry struct {
	Refusals int16         // in a row
	Since    time.Duration // of the first of them
	At       time.Duration // when the call is made again; 0: at once
}

// Waits reports whether the call is not to be made yet.
func (r *Retry) Waits(now time.Duration) bool { return r.Refusals > 0 && now < r.At }

// Refused records that the call was refused again. It reports whether that lasts too long.
func (r *Retry) Refused(now time.Duration) (tooLong bool) {
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
func (r *Retry) End() { r.Refusals, r.At = 0, 0 }
