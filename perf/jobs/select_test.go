package jobs

import (
	"errors"
	"testing"
)

// TestSelect: an id, the beginning of one or a process id selects a job, and of several ibruns of a job the first.
func TestSelect(t *testing.T) {
	all := []Job{{ID: "ab1", PID: 10}, {ID: "ab2", PID: 11}, {ID: "cd", PID: 12}, {ID: "cd", PID: 13, Node: 1}}
	for want, found := range map[string]string{"ab1": "ab1", "c": "cd", "12": "cd", "11": "ab2", "13": "cd"} {
		if j, err := Select(all, want); err != nil || j.ID != found {
			t.Errorf("%q is %s, %v", want, j.ID, err)
		}
	}
	if j, err := Select(all, "13"); err != nil || j.Node != 1 {
		t.Errorf("the process of node 1 selects node %d, %v", j.Node, err)
	}
	for name, want := range map[string]error{"": ErrAmbiguous, "ab": ErrAmbiguous, "x": ErrNotFound} {
		if j, err := Select(all, name); !errors.Is(err, want) {
			t.Errorf("%q is %s, %v; want %v", name, j.ID, err, want)
		}
	}
	if j, err := Select(all[:1], ""); err != nil || j.ID != "ab1" {
		t.Errorf("the only one is %s, %v", j.ID, err)
	}
	if _, err := Select(nil, ""); !errors.Is(err, ErrNotFound) {
		t.Errorf("of none: %v", err)
	}
}
