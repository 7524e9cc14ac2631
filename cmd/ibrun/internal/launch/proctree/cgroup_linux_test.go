package proctree

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestUnifiedDir(t *testing.T) {
	const unified = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
	for _, c := range []struct{ name, mounts, own, want string }{
		{"host", unified, "0::/user.slice/a.scope\n", "/sys/fs/cgroup/user.slice/a.scope"},
		{"hybrid", "29 23 0:25 / /cg/cpu rw - cgroup cgroup rw,cpu\n35 23 0:31 / /cg/unified rw - cgroup2 cgroup2 rw\n",
			"2:cpu:/x\n0::/\n", "/cg/unified"},
		{"container that sees the host's names", "30 23 0:26 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup rw\n",
			"0::/docker/abc/sub\n", "/sys/fs/cgroup/sub"},
		{"outside what is mounted", "30 23 0:26 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup rw\n", "0::/docker/other\n", ""},
		{"only the old kind", "29 23 0:25 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n", "2:cpu:/x\n", ""},
		{"nothing", "", "", ""},
		{"damaged", "x - cgroup2 y\n\n - cgroup2\n", "0::/\n", ""},
	} {
		if got, _, _ := unifiedDir(c.mounts, c.own); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
	var none *Cgroup
	none.Kill()
	if err := none.Remove(); err != nil {
		t.Error(err)
	}
}

// The kills of the group with the memory controller count, and the limits of it and of all groups above it.
func TestFindOOMCounter(t *testing.T) {
	const (
		version1 = "29 23 0:25 / /cg/cpu rw - cgroup cgroup rw,cpu\n33 23 0:29 /docker/a /cg/memory rw - cgroup cgroup rw,memory\n"
		version2 = "30 23 0:26 / /cg rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
	)
	for _, c := range []struct{ name, mounts, own, counters, limits string }{
		{"version 1", version1 + version2, "4:cpuacct,memory:/docker/a/b\n2:cpu:/x\n0::/\n", "/cg/memory/b/memory.oom_control",
			"/cg/memory/b/memory.limit_in_bytes /cg/memory/memory.limit_in_bytes"},
		{"version 2", version2, "0::/slice/unit/leaf\n", "/cg/slice/memory.events", "/cg/slice/memory.max /cg/memory.max"},
		{"none", "", "0::/a\n", "", ""},
	} {
		got := findOOMCounter(c.mounts, c.own, func(path string) bool { return path == "/cg/slice/memory.events" })
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
