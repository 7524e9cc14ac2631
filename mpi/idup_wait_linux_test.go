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
// With IBRUN_SOAK=1 it makes 5000 of each.
func TestIdupBesideAllreduce(t *testing.T) { launchOver(t, "idups", 2) }

// TestWaitsOfProcesses is TestWaits between processes.
func TestWaitsOfProcesses(t *testing.T) { launchOver(t, "waits", 3) }

// launchOver runs a program with n ranks over each transport that joins processes here.
func launchOver(t *testing.T, program string, n int) {
	for _, transport := range []string{"shm", "tcp"} {
		t.Run(transport, func(t *testing.T) {
			dress := func(_ int, c *exec.Cmd) {
				c.Env = append(c.Env, "IBRUN_TRANSPORT="+transport, "IBRUN_TCP_INTERFACES=lo")
			}
			if end, exits, output := launchJob(t, pmi.Job{Size: n}, 1, program, dress); end != "" || !slices.Equal(exits, make([]int, n)) {
				t.Errorf("ended with %q, codes %v\n%s", end, exits, output)
			}
		})
	}
}

// idups is the program of the test.
func idups(p *mpi.Process) error {
	rounds := soaktest.Choose(5000, 24)
	w := p.World()
	for i := range rounds {
		if err := idupBesideAllreduce(w, i%w.Size() == w.Rank(), i%2 == 0); err != nil {
			return fmt.Errorf("round %d: %w", i, err)
		}
	}
	return nil
}

// idupBesideAllreduce makes both. It waits for the Idup by Wait, or, if otherwise is set, by its channel or a loop of Test.
func idupBesideAllreduce(w *mpi.Comm, otherwise, channel bool) error {
	sums := make([]int, 3)
	q, err := mpi.Iallreduce(w, sums, []int{1, 2, 3}, mpi.Sum)
	if err != nil {
		return err
	}
	d, r, err := w.Idup()
	if err != nil {
		return err
	}
	switch {
	case otherwise && channel:
		<-r.Done()
		_, err = r.Wait()
	case otherwise:
		for done := false; err == nil && !done; {
			_, done, err = r.Test()
		}
	default:
		_, err = r.Wait()
	}
	_, err2 := q.Wait()
	return errors.Join(err, err2, d.Free(), check(sums[2] == 3*w.Size(), "the sum is %d", sums[2]))
}
