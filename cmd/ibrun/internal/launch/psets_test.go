package launch

import (
	"fmt"
	"testing"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
)

// Ranges are sorted and merged, and a rank that does not exist is an error.
func TestPsets(t *testing.T) {
	defined := []cli.Pset{
		{Name: "x", Ranks: cli.Ranges{{Low: 5, High: 6}, {Low: 0, High: 1}, {Low: 2, High: 2}, {Low: 1, High: 1}}},
		{Name: "y", Ranks: cli.Ranges{{Low: 3, High: 3}}},
	}
	sets, err := processSets(defined, 7)
	if err != nil || fmt.Sprint(sets) != "[{x [[0 2] [5 6]]} {y [[3 3]]}]" {
		t.Errorf("%v, %v", sets, err)
	}
	want := "there is no rank 6 for process set x; the last is 5"
	if _, err := processSets(defined, 6); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
