package tunables

import (
	"strings"
	"testing"
	"time"
)

// A bad value of IBRUN_POLL is an error that names the variable, the value and what is allowed.
func TestPollFromEnv(t *testing.T) {
	for text, want := range map[string]time.Duration{"0": 0, "0s": 0, "100us": 100 * time.Microsecond, "1h": time.Hour} {
		if got, err := PollFromEnv(func(string) string { return text }); err != nil || got == nil || *got != want {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	if got, err := PollFromEnv(func(string) string { return "" }); got != nil || err != nil {
		t.Errorf("not set: %v, %v", got, err)
	}
	for text, want := range map[string]string{"always": "such as 100us", "7": "such as 100us", "-1us": "from 0 to 1h0m0s",
		"61m": "from 0"} {
		_, err := PollFromEnv(func(string) string { return text })
		if err == nil || !strings.HasPrefix(err.Error(), "IBRUN_POLL=\""+text) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
