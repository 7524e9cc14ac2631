package proctree

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ibrun/ibrun/internal/cgroup"
)

// The kills of the group with the memory controller count, and the limits of it and of all groups above it.
func TestFindOOMCounter(t *testing.T) {
	const (
		version1 = "29 23 0:25 / /cg/cpu rw - cgroup cgroup rw,cpu\n" +
			"33 23 0:29 /docker/a /cg/memory rw - cgroup cgroup rw,memory\n"
		version2 = "30 23 0:26 / /cg rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
	)
	for _, c := range []struct{ name, mounts, own, counters, limits string }{
		{"version 1", version1 + version2, "4:cpuacct,memory:/docker/a/b\n2:cpu:/x\n0::/\n", "/cg/memory/b/memory.oom_control",
			"/cg/memory/b/memory.limit_in_bytes /cg/memory/memory.limit_in_bytes"},
		{"version 2", version2, "0::/slice/unit/leaf\n", "/cg/slice/memory.events", "/cg/slice/memory.max /cg/memory.max"},
		{"none", "", "0::/a\n", "", ""},
	} {
		got := findOOMCounter(cgroup.Files{Mounts: c.mounts, Groups: c.own}, func(path string) bool {
			return path == "/cg/slice/memory.events"
		})
		if got == nil {
			got = &OOMCounter{}
		}
		if got.counters != c.counters || strings.Join(got.limits, " ") != c.limits {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
	for text, want := range map[string]int64{"low 0\noom 3\noom_kill 2\n": 2, "oom_kill_disable 1\nunder_oom 0\noom_kill 7\n": 7,
		"": 0, "oom_kill x\n": 0, "oom_kill": 0} {
		if got := parseOOMKills(text); got != want {
			t.Errorf("%q: %d kills, want %d", text, got, want)
		}
	}
}

// A nil Cgroup does nothing.
func TestNoCgroup(t *testing.T) {
	var none *Cgroup
	none.Kill()
	none.Close()
	if err := none.Remove(); err != nil {
		t.Error(err)
	}
}

func TestSweep(t *testing.T) {
	parent := t.TempDir()
	old := time.Now().Add(-time.Hour)
	for _, name := range []string{"ibrun-left", "ibrun-used/process", "ibrun-used", "others", "ibrun-new"} {
		path := filepath.Join(parent, name)
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		if name == "ibrun-new" {
			continue
		}
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	removeStale(parent)
	for name, stays := range map[string]bool{"ibrun-left": false, "ibrun-used": true, "ibrun-new": true, "others": true} {
		if _, err := os.Stat(filepath.Join(parent, name)); (err == nil) != stays {
			t.Errorf("%s stays: %v, want %v", name, !stays, stays)
		}
	}
}
