package mpitest

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ibrun/ibrun/mpi"
)

// TestDeadlock: a world whose ranks wait for each other fails, with the line of each.
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
}

// TestDeadlockComputes: a world in which a rank computes does not fail, however often the ranks are looked at.
func TestDeadlockComputes(t *testing.T) {
	d := &deadlockWatch{world: &world{}, running: map[int]*mpi.Process{0: nil, 1: nil}}
	waits := make(chan *mpi.Process, 1)
	Run(t, 2, func(p *mpi.Process) error {
		rank := p.World().Rank()
		d.add(rank, p)
		if rank == 0 {
			waits <- p
			return p.World().Barrier()
		}
		for other := <-waits; ; runtime.Gosched() { // for ever, if rank 0 does not wait
			s, err := other.Recorded()
			if err != nil {
				return err
			}
			if len(s.Current) != 0 {
				break // rank 0 is in Barrier
			}
		}
		for n := range 100 * samples { // rank 0 does not wait at once
			if d.deadlocked() {
				return fmt.Errorf("a deadlock after %d samples, although this rank computes", n+1)
			}
		}
		return p.World().Barrier()
	})
}
