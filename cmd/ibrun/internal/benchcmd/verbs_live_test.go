//go:build linux

package benchcmd

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/soft-roce/live"
)

// TestLiveVerbs: a short run against perftest itself, on a device.
func TestLiveVerbs(t *testing.T) {
	device := live.Device(t)
	out, err := start(t, "verbs --json --op send_lat,read_bw --size 8,4K --rounds 1 --iterations 100 --device "+device+
		" --reference "+linkReference(t))
	if err != nil {
		t.Fatal(err)
	}
	const points, providers = 4, 2
	n := 0
	for text := range strings.Lines(out) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil || l.Ours <= 0 || l.Peer <= 0 || l.Ratio <= 0 || l.Provider == "" {
			t.Errorf("%q: %v", text, err)
		}
		n++
	}
	if n != points*providers {
		t.Errorf("%d lines, want %d\n%s", n, points*providers, out)
	}
}
