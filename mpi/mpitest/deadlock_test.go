package mpitest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ibrun/ibrun/mpi"
)

// TestDeadlock: a world whose ranks wait for each other fails, with the line of each; one in which a rank computes does not.
func TestDeadlock(t *testing.T) {
	o := Options{Deadlock: 300 * time.Millisecond}
	t.Setenv("IBRUN_CHECK", "1")
	failures := run(t, 3, o, func(p *mpi.Process) error {
		if p.World().Rank() == 2 {
			return nil // it waits in Finalize
		}
		_, err := mpi.Recv(p.World(), make([]int, 1), 1-p.World().Rank(), 7)
		return err
	})
	if len(failures) != 1 || !errors.Is(failures[0], errDeadlock) {
		t.Fatalf("the failures are %v", failures)
	}
	for _, part := range []string{"rank 0: in Recv, with rank 1, tag 7, at mpitest/deadlock_test.go:", "rank 1: in Recv",
		"rank 2: in Finalize"} {
		if !strings.Contains(failures[0].Error(), part) {
			t.Errorf("the view lacks %q: %v", part, failures[0])
		}
	}
	patient := Options{Deadlock: 2 * time.Second} // a rank that was woken may need a while until it runs
	failures = run(t, 2, patient, func(p *mpi.Process) error {
		if p.World().Rank() == 0 {
			return p.World().Barrier()
		}
		for began := time.Now(); time.Since(began) < 3*patient.Deadlock; {
		}
		return p.World().Barrier()
	})
	if failures != nil {
		t.Errorf("a rank that computes: %v", failures)
	}
}
