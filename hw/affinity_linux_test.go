package hw

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestBind(t *testing.T) {
	runtime.LockOSThread() // never unlocked: the thread ends with the test's goroutine
	before, err := Affinity()
	if err != nil || len(before) == 0 {
		t.Fatalf("affinity is %v, %v", before, err)
	}
	if err := Bind(before[:1]); err != nil {
		t.Fatal(err)
	}
	after, err := Affinity()
	if err != nil || !slices.Equal(after, before[:1]) {
		t.Errorf("bound to %v, affinity is %v, %v", before[:1], after, err)
	}
	if err := Bind(nil); err == nil {
		t.Error("binding to no PU succeeded")
	}
	if err := Bind([]int{before[0], maxID - 1}); !errors.Is(err, ErrBind) {
		t.Errorf("Bind to the nonexistent PU %d returned %v", maxID-1, err)
	}
}

// A child process inherits the memory policy. PreferMemory(nil) removes the policy of the thread.
func TestPreferMemory(t *testing.T) {
	runtime.LockOSThread() // never unlocked: the thread ends with the test's goroutine
	policy := func(want string) {
		t.Helper()
		maps, err := exec.Command("cat", "/proc/self/numa_maps").Output()
		if err != nil || !strings.Contains(string(maps), want) {
			t.Errorf("%v, %.200q has no %q", err, maps, want)
		}
	}
	if err := PreferMemory([]int{0}); errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrPermission) {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skipf("this kernel or container has no memory policies: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	if set, err := HasMemoryPolicy(); !set || err != nil {
		t.Errorf("%v, %v after it was set", set, err)
	}
	policy(" prefer")
	if err := PreferMemory([]int{1000}); err == nil {
		t.Error("memory of a node that is not there was preferred")
	}
	if err := PreferMemory(nil); err != nil {
		t.Error(err)
	}
	if set, err := HasMemoryPolicy(); set || err != nil {
		t.Errorf("%v, %v after it was removed", set, err)
	}
	policy(" default")
}

// The affinity of the process includes more than the affinity of one bound thread.
func TestProcessAffinity(t *testing.T) {
	before, err := ProcessAffinity()
	if err != nil || len(before) == 0 {
		t.Fatalf("affinity is %v, %v", before, err)
	}
	runtime.LockOSThread() // never unlocked: the thread ends with the test's goroutine
	if err := Bind(before[len(before)-1:]); err != nil {
		t.Fatal(err)
	}
	after, err := ProcessAffinity()
	if err != nil || !slices.Equal(after, before) {
		t.Errorf("after one thread was bound it is %v, %v, want %v", after, err, before)
	}
}

func TestThisMachine(t *testing.T) {
	top, err := Read(os.DirFS("/"))
	if err != nil {
		t.Fatal(err)
	}
	allowed, err := Affinity()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, core := range top.CoresOf(allowed) {
		seen += len(core)
	}
	if seen != len(allowed) {
		t.Errorf("the cores hold %d PUs, %d are allowed", seen, len(allowed))
	}
}

// A node without memory is not an error; a node that does not exist is.
func TestWithoutMemory(t *testing.T) {
	tree := os.DirFS(t.TempDir())
	if allWithoutMemory(tree, []int{0}) {
		t.Error("where nothing is told, a node has no memory")
	}
	tree = fstest.MapFS{
		dirNode + "online":     {Data: []byte("0-2,6\n")},
		dirNode + "has_memory": {Data: []byte("0-1\n")},
	}
	for _, c := range []struct {
		nodes []int
		want  bool
	}{{[]int{2}, true}, {[]int{2, 6}, true}, {[]int{0}, false}, {[]int{1, 2}, false}, {[]int{3}, false}, {[]int{2, 1000}, false}} {
		if got := allWithoutMemory(tree, c.nodes); got != c.want {
			t.Errorf("nodes %v are without memory: %t, want %t", c.nodes, got, c.want)
		}
	}
}
