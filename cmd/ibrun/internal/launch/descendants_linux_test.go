package launch

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestDescendants(t *testing.T) {
	cmd := exec.Command("sh", "-c", "sleep 1000 & echo $!; wait")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 1) // the child is there once its number has begun to come
	if _, err := out.Read(line); err != nil {
		t.Fatal(err)
	}
	below := Descendants(os.Getpid())
	parents := map[int]int{}
	for pid, parent := range below {
		parents[parent] = pid
	}
	grandchild := parents[cmd.Process.Pid]
	if below[cmd.Process.Pid] != os.Getpid() || grandchild == 0 {
		t.Errorf("below this process are %v, want %d and a child of it", below, cmd.Process.Pid)
	}
	SignalChild(grandchild, os.Getpid()+1, unix.SIGKILL) // not its parent: it must live
	if p, err := ReadProcess(grandchild); err != nil || p.Zombie {
		t.Errorf("a process was killed for another's sake: %+v, %v", p, err)
	}
	SignalChild(grandchild, cmd.Process.Pid, unix.SIGKILL)
	if err := cmd.Wait(); err != nil { // the shell waits for its child
		t.Error(err)
	}
}

func TestStat(t *testing.T) {
	for text, want := range map[string]Process{
		"12 (a) b\n) S 7 1 1 0 -1 4194560 0\n":      {PID: 12, Parent: 7, State: 'S'},
		"12 () S 7 1 1 0 -1 4194564 0\n":            {PID: 12, Parent: 7, State: 'S', Exiting: true},
		"1 (init) Z 0 1 1 0 -1 4194560 0\n":         {PID: 1, Zombie: true, Exiting: true, State: 'Z'},
		"9 (a) T 7 1 1 0 -1 0 1 2 3 4 150 25 9 9\n": {PID: 9, Parent: 7, State: 'T', CPU: 1750 * time.Millisecond},
	} {
		if p, err := parseStat(text); err != nil || p != want {
			t.Errorf("%q is %+v, %v, want %+v", text, p, err, want)
		}
	}
	for _, bad := range []string{"", "\n", "12 S 7 1 1 0 -1 0\n", ") (\n", "x (a) S 7 1 1 0 -1 0\n", "12 (a) S 7\n",
		"12 (a) SS 7 1 1 0 -1 0\n", "12 (a) S x 1 1 0 -1 0\n", "12 (a) S 7 1 1 0 -1 x\n", "12 (a) S 7 1 1 0 -1 0",
		"9 (a) T 7 1 1 0 -1 0 1 2 3 4 x 25\n", "9 (a) T 7 1 1 0 -1 0 1 2 3 4 150 -1\n"} {
		if p, err := parseStat(bad); err == nil {
			t.Errorf("%q was taken for %+v", bad, p)
		}
	}
}

func FuzzStat(f *testing.F) {
	f.Add("12 (a) b\n) S 7 1 1 0 -1 4194560 0\n")
	f.Add("1 () Z 0 1 1 0 -1 4194560 0\n")
	f.Add("9 (a) T 7 1 1 0 -1 0 1 2 3 4 150 25 9 9\n")
	f.Fuzz(func(t *testing.T, text string) {
		if p, err := parseStat(text); err == nil && p.Zombie && !p.Exiting {
			t.Errorf("%q is %+v", text, p)
		}
	})
}

func TestCgroupDir(t *testing.T) {
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
		{"damaged", "x - cgroup2 y\n", "0::/\n", ""},
	} {
		if got, _ := cgroupDir(c.mounts, c.own); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
	var none *Cgroup
	none.Kill()
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
