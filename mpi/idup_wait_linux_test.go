package mpi_test

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"testing"

	"github.com/ibrun/ibrun/internal/pmi"
	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/mpi"
)

// TestIdupBesideAllreduce: an Idup and an immediate collective that are in progress together complete, in whatever way ranks wait
// for them. A goroutine that waits takes over polling from the one of the background, which may complete its request meanwhile.
// The two use different threads, unless the rank has one processor. With IBRUN_SOAK=1 there are more ranks, and one or many
// processors for each.
func TestIdupBesideAllreduce(t *testing.T) {
	for _, n := range soaktest.Choose([]int{2, 3, 4, 7}, []int{2, 3}) {
		for _, processors := range soaktest.Sample([]string{"2", "1", "8"}, 1) {
			t.Run(fmt.Sprintf("%d ranks, GOMAXPROCS=%s", n, processors), func(t *testing.T) {
				launchOver(t, "idups", n, "GOMAXPROCS="+processors)
			})
		}
	}
}

// TestWaitsOfProcesses is TestWaits between processes.
func TestWaitsOfProcesses(t *testing.T) { launchOver(t, "waits", 3) }

// launchOver runs a program with n ranks over each transport that joins processes here. Variables are those of its environment.
func launchOver(t *testing.T, program string, n int, variables ...string) {
	for _, transport := range []string{"shm", "tcp"} {
		t.Run(transport, func(t *testing.T) {
			dress := func(_ int, c *exec.Cmd) {
				c.Env = append(append(c.Env, "IBRUN_TRANSPORT="+transport, "IBRUN_TCP_INTERFACES=lo"), variables...)
			}
			if end, exits, output := launchJob(t, pmi.Job{Size: n}, 1, program, dress); end != "" || !slices.Equal(exits, make([]int, n)) {
				t.Errorf("ended with %q, codes %v\n%s", end, exits, output)
			}
		})
	}
}

// idups is the program of the test. In each round one rank, in turn, waits in one of the ways, in turn. The others call Wait.
func idups(p *mpi.Process) error {
	rounds := soaktest.Choose(2000, 24)
	w := p.World()
	for i := range rounds {
		way := byWait
		if i%w.Size() == w.Rank() {
			way = idupWay(i / w.Size() % int(idupWays))
		}
		if err := idupBesideAllreduce(w, way); err != nil {
			return fmt.Errorf("round %d: %w", i, err)
		}
	}
	return nil
}

// idupWay is a way to wait for the Idup.
type idupWay int

const (
	byDone idupWay = iota
	byTest
	byWait
	idupWays
)

// idupBesideAllreduce makes both, and waits for the Idup in a way.
func idupBesideAllreduce(w *mpi.Comm, way idupWay) error {
	sums := make([]int, 3)
	q, err := mpi.Iallreduce(w, sums, []int{1, 2, 3}, mpi.Sum)
	if err != nil {
		return err
	}
	d, r, err := w.Idup()
	if err != nil {
		return err
	}
	switch way {
	case byDone:
		<-r.Done()
		_, err = r.Wait()
	case byTest:
		for done := false; err == nil && !done; {
			_, done, err = r.Test()
		}
	default:
		_, err = r.Wait()
	}
	_, err2 := q.Wait()
	return errors.Join(err, err2, d.Free(), check(sums[2] == 3*w.Size(), "the sum is %d", sums[2]))
}
