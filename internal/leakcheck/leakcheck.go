// Package leakcheck finds goroutines, file descriptors and mappings that a test leaves behind.
//
//	before := leakcheck.Take(t, leakcheck.Files)
//	t.Cleanup(func() { before.Compare(t) })
package leakcheck

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Snapshot counts the resources of this process that a test could leave behind.
type Snapshot struct {
	goroutines  int
	descriptors map[string]int // by what they refer to; empty on systems without /proc
	mappings    int
	counts      Mapping
}

// Mapping reports whether a line of /proc/self/maps is counted.
type Mapping func(line []byte) bool

// Files counts the mappings of files.
func Files(line []byte) bool {
	f := bytes.Fields(line) // address, access, offset, device, inode, path: anonymous memory has inode 0
	return len(f) > 4 && string(f[4]) != "0"
}

// Take counts the resources in use now. It counts the mappings that m reports.
func Take(t testing.TB, m Mapping) Snapshot {
	t.Helper()
	// The runtime keeps a few descriptors for itself from the first time that it polls a file: create them before the first count.
	if r, w, err := os.Pipe(); err == nil {
		if err := errors.Join(r.Close(), w.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return count(t, m)
}

func count(t testing.TB, m Mapping) Snapshot {
	t.Helper()
	s := Snapshot{goroutines: runtime.NumGoroutine(), descriptors: map[string]int{}, counts: m}
	if dir, err := os.ReadDir("/proc/self/fd"); err == nil {
		for _, fd := range dir {
			name, err := os.Readlink("/proc/self/fd/" + fd.Name())
			if err == nil { // the descriptor of the directory itself is closed by now
				name, _, _ = strings.Cut(name, ":[")
				s.descriptors[name]++
			}
		}
	} else if dir, err := os.ReadDir("/dev/fd"); err == nil {
		s.descriptors["any"] = len(dir)
	}
	switch maps, err := os.ReadFile("/proc/self/maps"); {
	case err == nil:
		for line := range bytes.Lines(maps) {
			if m(line) {
				s.mappings++
			}
		}
	case !errors.Is(err, fs.ErrNotExist):
		t.Fatal(err)
	}
	return s
}

// Compare fails the test if more is in use now than when s was taken. It waits up to a minute for goroutines to end.
func (s Snapshot) Compare(t testing.TB) {
	t.Helper()
	if t.Failed() {
		return // a test that has stopped half-way may leave anything
	}
	limit := time.Minute
	if t, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if end, ok := t.Deadline(); ok {
			limit = min(limit, time.Until(end)/8)
		}
	}
	now := count(t, s.counts)
	for end := time.Now().Add(limit); now.exceeds(s) && time.Now().Before(end); now = count(t, s.counts) {
		time.Sleep(time.Millisecond)
	}
	if now.exceeds(s) {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		t.Errorf("the test leaks resources:\nbefore: %v\nafter:  %v\n%s", s, now, stacks)
	}
}

// String lists the counts.
func (s Snapshot) String() string {
	return fmt.Sprintf("%d goroutines, %d mappings, descriptors %v", s.goroutines, s.mappings, s.descriptors)
}

// exceeds reports whether s counts more than before of any resource.
func (s Snapshot) exceeds(before Snapshot) bool {
	for name, n := range s.descriptors {
		if n > before.descriptors[name] {
			return true
		}
	}
	return s.goroutines > before.goroutines || s.mappings > before.mappings
}
