package benchcmd

import (
	"slices"
	"testing"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
)

// TestLists: items have no spaces around them, a list may come before the flags only, and a range means the powers of two in it.
func TestLists(t *testing.T) {
	names, flags := leadingList([]string{"bcast, reduce", "--used"})
	if !slices.Equal(names, []string{"bcast", "reduce"}) || !slices.Equal(flags, []string{"--used"}) {
		t.Errorf("%q before %q", names, flags)
	}
	for _, args := range [][]string{{"--used", "bcast"}, {}} {
		if names, flags := leadingList(args); names != nil || !slices.Equal(flags, args) {
			t.Errorf("%q: %q before %q", args, names, flags)
		}
	}
	var r cli.Ranges
	if err := r.Set("64K,8-32,8"); err != nil {
		t.Fatal(err)
	}
	if got, want := numbersIn(r), []int{64 << 10, 8, 16, 32, 8}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got, want := sorted(r, nil), []int{8, 16, 32, 64 << 10}; !slices.Equal(got, want) {
		t.Errorf("sorted: %v, want %v", got, want)
	}
	if got := sorted(nil, []int{7}); !slices.Equal(got, []int{7}) {
		t.Errorf("of no range: %v", got)
	}
}
