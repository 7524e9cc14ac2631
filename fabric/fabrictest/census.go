package fabrictest

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"runtime"
	"testing"
	"time"
)

// census counts what a process could leave behind.
type census struct {
	goroutines int
	files      int // open descriptors, -1 where the system does not tell
	mappings   int // mapped files, -1 where the system does not tell
}

func takeCensus(t testing.TB) census {
	t.Helper()
	// The runtime keeps a few descriptors for itself once a file was polled for: have them before the first count.
	if r, w, err := os.Pipe(); err == nil {
		if err := errors.Join(r.Close(), w.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return count(t)
}

func count(t testing.TB) census {
	t.Helper()
	c := census{goroutines: runtime.NumGoroutine(), files: -1, mappings: -1}
	if dir, err := os.ReadDir("/dev/fd"); err == nil {
		c.files = len(dir)
	}
	switch maps, err := os.ReadFile("/proc/self/maps"); {
	case err == nil:
		c.mappings = 0
		for line := range bytes.Lines(maps) {
			// address, access, offset, device, inode, path: memory of the program's own has inode 0
			if f := bytes.Fields(line); len(f) > 4 && string(f[4]) != "0" {
				c.mappings++
			}
		}
	case !errors.Is(err, fs.ErrNotExist):
		t.Fatal(err)
	}
	return c
}

// compare fails the test if more is there now than before. Goroutines may need a moment to end.
func (before census) compare(t testing.TB) {
	t.Helper()
	if t.Failed() {
		return // what has hung or stopped half-way leaves anything
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
	return c.goroutines > than.goroutines || c.files > than.files || c.mappings > than.mappings
}
