package verbstest

import (
	"testing"
	"time"
)

// waitTimeout returns the limit of each wait of a test: a minute, or a quarter of the time before its deadline if that is less.
func waitTimeout(t testing.TB) time.Duration {
	const most = time.Minute
	if t, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if end, ok := t.Deadline(); ok {
			return min(most, time.Until(end)/4)
		}
	}
	return most
}
