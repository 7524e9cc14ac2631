package verbstest

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// census counts what a process could leave behind.
type census struct {
	goroutines int
	files      map[string]int // open descriptors, by what they are of
	mappings   int            // of devices
}

func count(t testing.TB) census {
	t.Helper()
	c := census{goroutines: runtime.NumGoroutine(), files: map[string]int{}}
	switch dir, err := os.ReadDir("/proc/self/fd"); {
	case err == nil:
		for _, fd := range dir {
			name, err := os.Readlink("/proc/self/fd/" + fd.Name())
			if err == nil { // not the descriptor of the directory
				name, _, _ = strings.Cut(name, ":[")
				c.files[name]++
			}
		}
	case !errors.Is(err, fs.ErrNotExist):
		t.Fatal(err)
	}
	switch maps, err := os.ReadFile("/proc/self/maps"); {
	case err == nil:
		c.mappings = bytes.Count(maps, []byte("/dev/infiniband/"))
	case !errors.Is(err, fs.ErrNotExist):
		t.Fatal(err)
	}
	return c
}

// compare fails the test if more is there now than before. Goroutines may need a moment to end.
func (before census) compare(t testing.TB) {
	t.Helper()
	if t.Failed() {
		return // what has stopped half-way leaves anything
	}
	after := count(t)
	for end := time.Now().Add(min(5*time.Second, patience(t)/4)); after.more(before) && time.Now().Before(end); after = count(t) {
		time.Sleep(time.Millisecond)
	}
	if after.more(before) {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		t.Errorf("left behind: before %+v, after %+v\n%s", before, after, stacks)
	}
}

func (c census) more(than census) bool {
	for name, n := range c.files {
		if n > than.files[name] {
			return true
		}
	}
	return c.goroutines > than.goroutines || c.mappings > than.mappings
}

// patience is how long a test may wait for what does not come: a minute, or a part of what is left to it.
func patience(t testing.TB) time.Duration {
	const most = time.Minute
	if t, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if end, ok := t.Deadline(); ok {
			return min(most, time.Until(end)/4)
		}
	}
	return most
}
