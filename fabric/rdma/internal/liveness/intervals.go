package liveness

import "time"

// A REQ that is not answered is sent again after MinREQInterval. The interval doubles up to
// MaxREQInterval.
const (
	MinREQInterval = 10 * time.Millisecond
	MaxREQInterval = 500 * time.Millisecond
)

// maxRetryPause is the longest pause between attempts before there were MaxFailures. Later the
// pause is MaxREQInterval.
const maxRetryPause = 100 * time.Millisecond

// RetryPause returns how long to wait after so many failures in a row.
func RetryPause(failures int16) time.Duration {
	switch {
	case failures <= 0:
		return 0
	case failures >= MaxFailures:
		return MaxREQInterval
	}
	return min(MinREQInterval<<(failures-1), maxRetryPause)
}
