package tunables

import (
	"strings"
	"testing"

	"github.com/ibrun/ibrun/perf"
)

// A bad value of IBRUN_PROTOCOL is an error that names the variable, the value and what is allowed.
func TestProtocolFromEnv(t *testing.T) {
	for text, want := range map[string]ForcedProtocol{
		"eager": {Protocol: perf.Eager}, "parts": {Protocol: perf.Parts}, "read": {Protocol: perf.Read},
		"shared": {Protocol: perf.Shared}, "copied": {Protocol: perf.Copied}, "random:7": {Random: true, Seed: 7},
	} {
		if got, err := ProtocolFromEnv(func(string) string { return text }); err != nil || got == nil || *got != want {
			t.Errorf("%q: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "auto"} {
		if got, err := ProtocolFromEnv(func(string) string { return text }); got != nil || err != nil {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"Read", "rdma read", "random", "random:", "random:-1", "eager,read"} {
		_, err := ProtocolFromEnv(func(string) string { return text })
		if err == nil || !strings.HasPrefix(err.Error(), "IBRUN_PROTOCOL=\""+text+"\": want auto, eager, ") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
