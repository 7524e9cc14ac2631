package buildinfo

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	built := func(version string, settings ...debug.BuildSetting) func() (*debug.BuildInfo, bool) {
		return func() (*debug.BuildInfo, bool) {
			return &debug.BuildInfo{Main: debug.Module{Version: version}, Settings: settings}, true
		}
	}
	revision := debug.BuildSetting{Key: "vcs.revision", Value: "0123456789abcdef0123"}
	for name, test := range map[string]struct {
		info            func() (*debug.BuildInfo, bool)
		version, commit string
	}{
		"installed": {built("v1.2.3"), "v1.2.3", "unknown"},
		"checkout":  {built("(devel)", revision), "(devel)", "0123456789ab"},
		"changed": {built("(devel)", revision, debug.BuildSetting{Key: "vcs.modified", Value: "true"}), "(devel)",
			"0123456789ab+changes"},
		"unchanged": {built("(devel)", revision, debug.BuildSetting{Key: "vcs.modified", Value: "false"}), "(devel)",
			"0123456789ab"},
		"nothing": {func() (*debug.BuildInfo, bool) { return nil, false }, "(unknown)", "unknown"},
	} {
		if v, commit := read(test.info); v != test.version || commit != test.commit {
			t.Errorf("%s: got %s, %s, want %s, %s", name, v, commit, test.version, test.commit)
		}
	}
}

func TestLine(t *testing.T) {
	line := Line()
	for _, part := range []string{"ibrun " + Version() + " ", "(commit ", runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH} {
		if !strings.Contains(line, part) {
			t.Errorf("got %q, want %q in it", line, part)
		}
	}
}
