package tunables

import (
	"errors"
	"fmt"
	"time"
)

// Poll is the variable that says how long a rank that waits polls before it sleeps: a duration in the syntax of Go, such as
// 100us. It holds for all transports. Without it, a rank polls for about a millisecond, or for 300 yields of its processor.
const Poll = "IBRUN_POLL"

// maxPoll is the bound of [Poll].
const maxPoll = time.Hour

// PollFromEnv returns the value of the variable [Poll], or nil if it is not set.
func PollFromEnv(getenv func(string) string) (*time.Duration, error) {
	text := getenv(Poll)
	if text == "" {
		return nil, nil
	}
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		err = errors.New("want a duration such as 100us, or 0 to sleep at once")
	case d < 0 || d > maxPoll:
		err = fmt.Errorf("want a duration from 0 to %v", maxPoll)
	}
	if err != nil {
		return nil, fmt.Errorf("%s=%.60q: %w", Poll, text, err)
	}
	return &d, nil
}
