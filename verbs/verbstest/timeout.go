package verbstest

import (
	"testing"
	"time"
)

// waitTimeout is how long a test may wait for what does not come: a minute, or a part of what is left to it.
func waitTimeout(t testing.TB) time.Duration {
	const most = time.Minute
	if t, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if end, ok := t.Deadline(); ok {
			return min(most, time.Until(end)/4)
		}
	}
	return most
}
