package tunables

import (
	"errors"
	"fmt"
	"time"
)

// Heartbeat is the variable that says how long a node, and a rank on it, may be silent before it is lost. It is a duration in
// the syntax of Go, such as 15s.
const Heartbeat = "IBRUN_HEARTBEAT"

// The default and the bounds of [Heartbeat].
const (
	DefaultHeartbeat = 15 * time.Second
	minHeartbeat     = time.Second
	maxHeartbeat     = time.Hour
)

// CheckHeartbeat returns an error if d is out of bounds.
func CheckHeartbeat(d time.Duration) error {
	if d < minHeartbeat || d > maxHeartbeat {
		return fmt.Errorf("want a duration from %v to %v", minHeartbeat, maxHeartbeat)
	}
	return nil
}

// HeartbeatFromEnv returns the value of the variable [Heartbeat], or the default if it is not set.
func HeartbeatFromEnv(getenv func(string) string) (time.Duration, error) {
	text := getenv(Heartbeat)
	if text == "" {
		return DefaultHeartbeat, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		err = errors.New("want a duration such as 15s")
	} else {
		err = CheckHeartbeat(d)
	}
	if err != nil {
		return 0, fmt.Errorf("%s=%.60q: %w", Heartbeat, text, err)
	}
	return d, nil
}
