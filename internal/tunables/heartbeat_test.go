package tunables

import (
	"strings"
	"testing"
	"time"
)

// A bad value of IBRUN_HEARTBEAT is an error that names the variable, the value and what is allowed.
func TestHeartbeatFromEnv(t *testing.T) {
	for text, want := range map[string]time.Duration{"": DefaultHeartbeat, "20s": 20 * time.Second, "1h": time.Hour} {
		if got, err := HeartbeatFromEnv(func(string) string { return text }); got != want || err != nil {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{"soon": "such as 15s", "15": "such as 15s", "999ms": "from 1s to 1h0m0s",
		"-3s": "from 1s", "1h1s": "from 1s"} {
		_, err := HeartbeatFromEnv(func(string) string { return text })
		if err == nil || !strings.HasPrefix(err.Error(), "IBRUN_HEARTBEAT="+"\""+text) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
