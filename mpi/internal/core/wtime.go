package core

import "time"

// Wtime returns the time in seconds since some moment in the past, which is the same for all
// processes of the job.
func (p *Process) Wtime() float64 {
	if p.IsNone() {
		return 0
	}
	return float64(p.clocks.Clock.Now()) / 1e9
}

// Wtick is the resolution of Wtime in seconds.
const Wtick = 1e-9

// WtimeError bounds how far this process's Wtime differs from rank 0's now: what recent comparisons
// found, and what they leave open if that is more.
func (p *Process) WtimeError() time.Duration {
	if p.IsNone() {
		return 0
	}
	return time.Duration(p.clocks.Clock.Bound().Error)
}
