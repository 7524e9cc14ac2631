package liveness

import "time"

// A REQ that is not answered is sent again after MinREQInterval. The interval doubles up to
// MaxREQInterval.
const (
	MinREQInterval = 10 * time.Millisecond
	MaxREQInterval = 500 * time.Millisecond
)

// The pause after the first failure in a row is minRetryPause. Each further one is twice as long, up
// to maxRetryPause. From MaxFailures on each is lateRetryPause: after so many failures the next
// attempt will probably fail too.
const (
	minRetryPause  = 10 * time.Millisecond
	maxRetryPause  = 100 * time.Millisecond
	lateRetryPause = 500 * time.Millisecond
)

// RetryPause returns how long to wait after so many failures in a row.
func RetryPause(failures int16) time.Duration {
	switch {
	case failures <= 0:
		return 0
	case failures >= MaxFailures:
		return lateRetryPause
	}
	return min(minRetryPause<<(failures-1), maxRetryPause)
}
