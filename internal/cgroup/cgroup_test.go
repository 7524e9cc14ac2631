package cgroup

import (
	"os"
	"strings"
	"testing"
)

const unified = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"

func TestUnified(t *testing.T) {
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
		if got, _ := (Files{c.mounts, c.own}).Unified(); got.Path != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got.Path, c.want)
		}
	}
}

func TestController(t *testing.T) {
	f := Files{"29 23 0:25 / /cg/cpu rw - cgroup cgroup rw,cpu\n33 23 0:29 /docker/a /cg/memory rw - cgroup cgroup rw,memory\n",
		"4:cpuacct,memory:/docker/a/b\n2:cpu:/x\n0::/\n"}
	if d, ok := f.Controller("memory"); !ok || strings.Join(d.Upwards("limit"), " ") != "/cg/memory/b/limit /cg/memory/limit" {
		t.Errorf("memory: %+v, %v", d, ok)
	}
	if d, ok := f.Controller("pids"); ok {
		t.Errorf("pids: %+v", d)
	}
}

// The smallest quota on the way up counts.
func TestCPUQuota(t *testing.T) {
	old := Files{"29 23 0:25 / /cg/cpu rw - cgroup cgroup rw,cpuacct,cpu\n" + unified, "2:cpuacct,cpu:/a/b\n0::/\n"}
	now := Files{unified, "0::/a/b\n"}
	for _, c := range []struct {
		name  string
		f     Files
		files map[string]string
		want  float64
	}{
		{"none", now, nil, 0},
		{"unlimited", now, map[string]string{"/sys/fs/cgroup/a/cpu.max": "max 100000\n"}, 0},
		{"own", now, map[string]string{"/sys/fs/cgroup/a/b/cpu.max": "150000 100000\n", "/sys/fs/cgroup/a/cpu.max": "max 100000\n"},
			1.5},
		{"above", now, map[string]string{"/sys/fs/cgroup/a/b/cpu.max": "400000 100000\n", "/sys/fs/cgroup/a/cpu.max": "20000 10000\n"},
			2},
		{"version 1", old, map[string]string{"/cg/cpu/a/b/cpu.cfs_quota_us": "-1\n", "/cg/cpu/a/b/cpu.cfs_period_us": "100000\n",
			"/cg/cpu/a/cpu.cfs_quota_us": "50000\n", "/cg/cpu/a/cpu.cfs_period_us": "100000\n"}, 0.5},
		{"damaged", now, map[string]string{"/sys/fs/cgroup/a/cpu.max": "7\n", "/sys/fs/cgroup/a/b/cpu.max": "1 0\n"}, 0},
	} {
		got := c.f.cpuQuota(func(name string) ([]byte, error) {
			text, ok := c.files[name]
			if !ok {
				return nil, os.ErrNotExist
			}
			return []byte(text), nil
		})
		if got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
