package perf

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestCommNames: equal names are one, long ones are cut, and what does not fit any more is not recorded.
func TestCommNames(t *testing.T) {
	memory, r := newPage(t, On)
	long := strings.Repeat("x", NameBytes+1)
	if a, b, none := r.Name("a"), r.Name(long), r.Name(""); a != 1 || b != 2 || none != 0 || r.Name("a") != 1 {
		t.Errorf("numbers %d, %d, %d", a, b, none)
	}
	want := []string{"a", long[:NameBytes]}
	for i := range Names + 5 {
		name := fmt.Sprint("name ", i)
		if n := r.Name(name); (n == 0) != (len(want) == Names) {
			t.Fatalf("name %d has the number %d", i, n)
		}
		if len(want) < Names {
			want = append(want, name)
		}
	}
	page, err := Open(memory)
	if err != nil {
		t.Fatal(err)
	}
	s, err := page.Snapshot()
	if err != nil || !slices.Equal(s.Comms, want) {
		t.Errorf("%q, %v", s.Comms, err)
	}
	var none *Recorder
	none.SetName(none.Name("a")) // a nil recorder records nothing
}

// TestNamesOverwritten: a length that another process has changed gives no name.
func TestNamesOverwritten(t *testing.T) {
	_, r := newPage(t, On)
	r.Name("a")
	r.page.names[0].length = NameBytes + 1
	if got := r.page.names.read(1); got != "" {
		t.Errorf("%q", got)
	}
	if got := r.page.names.read(0) + r.page.names.read(Names+1); got != "" {
		t.Errorf("%q", got)
	}
}
