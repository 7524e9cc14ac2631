package tunables

import (
	"strings"
	"testing"
)

func TestChecksumFromEnv(t *testing.T) {
	for text, want := range map[string]bool{"": true, "on": true, "off": false} {
		if got, err := ChecksumFromEnv(func(string) string { return text }); got != want || err != nil {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	_, err := ChecksumFromEnv(func(string) string { return "no" })
	if err == nil || !strings.Contains(err.Error(), Checksum) || !strings.Contains(err.Error(), "on or off") {
		t.Error(err)
	}
}
