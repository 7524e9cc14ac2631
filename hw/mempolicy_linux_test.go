package hw

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/ibrun/ibrun/internal/needtest"
)

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
		needtest.Missing(t, "memory policies, which this kernel or container does not have: %v", err)
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
