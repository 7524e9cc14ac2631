package main

import (
	"context"
	"debug/elf"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ibrun/ibrun/soft-roce/vm/internal/gotest"
	"github.com/ibrun/ibrun/soft-roce/vm/internal/qemu"
)

func TestModuleRoot(t *testing.T) {
	top := t.TempDir()
	deep := filepath.Join(top, "a", "b")
	if err := os.MkdirAll(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	if got := moduleRoot(deep); got != deep {
		t.Errorf("outside of modules: %s, want the directory itself", got)
	}
	for _, name := range []string{"go.mod", "go.work"} {
		file := filepath.Join(top, name)
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := moduleRoot(deep); got != top {
			t.Errorf("below %s: %s, want %s", name, got, top)
		}
		os.Remove(file)
	}
}

// The cached result is valid for this boot and for a day. Every other content of the file is ignored.
func TestCachedAccel(t *testing.T) {
	file := filepath.Join(t.TempDir(), "accel")
	if got := cachedAccel(file); got != "" {
		t.Errorf("without a file: %q", got)
	}
	for _, a := range []qemu.Accel{qemu.KVM, qemu.TCG, qemu.TCG} {
		if err := cacheAccel(file, a); err != nil {
			t.Fatal(err)
		}
		if got := cachedAccel(file); got != a {
			t.Errorf("%q is cached, want %q", got, a)
		}
	}
	if left, err := os.ReadDir(filepath.Dir(file)); err != nil || len(left) != 1 {
		t.Errorf("remaining files: %v, %v", left, err)
	}
	for name, v := range map[string]accelResult{
		"of another boot": {qemu.TCG, "another", time.Now()},
		"old":             {qemu.TCG, bootID(), time.Now().Add(-validFor - time.Hour)},
		"of the future":   {qemu.TCG, bootID(), time.Now().Add(validFor + time.Hour)},
	} {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		os.WriteFile(file, text, 0o600)
		if got := cachedAccel(file); got != "" {
			t.Errorf("%s: %q", name, got)
		}
	}
	os.WriteFile(file, []byte(`{"Accel`), 0o600)
	if got := cachedAccel(file); got != "" {
		t.Errorf("of half a file: %q", got)
	}
}

func TestWorkDirsOfKilledRunsAreRemoved(t *testing.T) {
	cache := t.TempDir()
	dead := filepath.Join(cache, "runs", "dead")
	if err := os.MkdirAll(filepath.Join(dead, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	first, removeFirst, err := newWorkDir(cache)
	if err != nil {
		t.Fatal(err)
	}
	second, removeSecond, err := newWorkDir(cache)
	if err != nil {
		t.Fatal(err)
	}
	runs := func() (names []string) {
		entries, err := os.ReadDir(filepath.Join(cache, "runs"))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, filepath.Join(cache, "runs", e.Name()))
		}
		return names
	}
	want := []string{first, second}
	slices.Sort(want)
	if got := runs(); !slices.Equal(got, want) {
		t.Errorf("there are %q, want %q", got, want)
	}
	removeFirst()
	removeSecond()
	if got := runs(); len(got) > 0 {
		t.Errorf("remaining runs: %q", got)
	}
}

func TestMissingProgramsNamePackages(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	err := checkPrograms(&options{netem: "loss 1%"})
	if err == nil || !strings.Contains(err.Error(), "apt-get install -y --no-install-recommends qemu-system-x86 golang iproute2") {
		t.Errorf("%v", err)
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("TMPDIR", "/somewhere")
	t.Setenv("PATH", "/usr/bin")
	t.Setenv("OF_THE_USER", "a=b")
	j := &job{bin: "/work/bin", addrs: []string{"10.77.0.1", "10.77.0.2"}}
	env := j.environment(1)
	for _, want := range []string{"PATH=/work/bin:/usr/bin", "TMPDIR=/tmp", "OF_THE_USER=a=b", "IBRUN_VM_NODE=1",
		"IBRUN_VM_NODES=2", "IBRUN_VM_ADDRS=10.77.0.1,10.77.0.2", "IBRUN_LIVE=2"} {
		name, _, _ := strings.Cut(want, "=")
		all := slices.DeleteFunc(slices.Clone(env), func(v string) bool { return !strings.HasPrefix(v, name+"=") })
		if !slices.Equal(all, []string{want}) {
			t.Errorf("%s is %q, want %q", name, all, want)
		}
	}
}

func TestConfigs(t *testing.T) {
	j := &job{bin: "/tmp/w/bin", addrs: []string{"a", "b"}, hostDirs: []string{"/tmp/m/p", "/home/me", "/tmp/m", "/tmp/m"}}
	got := j.configs(2)
	if len(got) != 2 || got[1].Node != 1 || got[1].Bin != j.bin || !slices.Equal(got[0].Keep, []string{"/tmp/m", "/tmp/m/p"}) {
		t.Errorf("%+v", got)
	}
}

func TestConsoleTail(t *testing.T) {
	if got := consoleTail("\n"); got != "" {
		t.Errorf("of an empty console: %q", got)
	}
	got := consoleTail(strings.Repeat("early\n", 100) + "late\n")
	if n := strings.Count(got, "\n\t"); n != 40 || !strings.HasSuffix(got, "\n\tlate") {
		t.Errorf("%d lines: %q", n, got)
	}
}

// The first program of the guest must be static: it runs before the libraries are mounted. It is built as for guests, in the same
// cache, so that it is not linked again if nothing has changed.
func TestInitIsStatic(t *testing.T) {
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	if err := buildTools(context.Background(), filepath.Join(cache, "ibrun", "vm"), to, initTool); err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(filepath.Join(to, filepath.Base(initTool)))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		t.Errorf("%s needs a dynamic linker", initTool)
	}
}

func TestGoTestFlagsAreCheckedFirst(t *testing.T) {
	_, err := prepare(context.Background(), &options{nodes: 1, command: []string{"go", "test", "-json"}}, t.TempDir(), t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "-json") {
		t.Errorf("%v", err)
	}
	if c, err := gotest.Parse(nil); err != nil || len(c.Packages) != 1 {
		t.Errorf("%v, %v", c, err)
	}
}
