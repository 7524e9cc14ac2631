package doctor

import (
	"slices"
	"testing"
	"testing/fstest"
	"time"
)

// Whatever the files of a machine contain, every check returns a finding, and no check panics.
func FuzzRunChecks(f *testing.F) {
	files := healthy().Root.(fstest.MapFS)
	names := sortedKeys(files)
	for i, name := range names {
		f.Add(uint(i), string(files[name].Data))
	}
	f.Add(uint(slices.Index(names, "proc/self/limits")), "Max locked memory")
	f.Add(uint(slices.Index(names, "proc/version")), "Linux version 6")
	f.Add(uint(slices.Index(names, "proc/mounts")), "a /dev/shm b size=,size=k")
	f.Fuzz(func(t *testing.T, i uint, text string) {
		h := healthy()
		h.put(names[i%uint(len(names))], text)
		r := RunChecks(h)
		for _, c := range checks() {
			if of(r, c.id).Severity == "" {
				t.Fatalf("with %q in %s the check %s returns no finding", text, names[i%uint(len(names))], c.id)
			}
		}
	})
}

func FuzzParseOutput(f *testing.F) {
	f.Add("1700000000000000000\nibrun v1\n[]\nback\n")
	f.Add("1\n\n\nblocked")
	f.Add("Welcome!\n1\n2\n3\n4\n")
	f.Fuzz(func(t *testing.T, text string) {
		var p Peer
		begin := time.Unix(1_700_000_000, 0)
		if err := p.parseOutput(text, begin, begin.Add(time.Second)); err == nil && p.ClockError != time.Second/2 {
			t.Fatalf("%q was parsed as %+v", text, p)
		}
	})
}
