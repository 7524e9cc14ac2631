package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/ibrun/ibrun/internal/openmpitest"
	"github.com/ibrun/ibrun/mpi"
)

// sum adds the numbers of all ranks. With an argument the last rank ends the job: "abort" aborts with code 9, "exit" exits with
// code 5, "kill" kills itself.
func sum(args []string) error {
	p, err := mpi.Init(context.Background(), nil)
	if err != nil {
		return err
	}
	w := p.World()
	if len(args) > 0 {
		err = w.Barrier() // a rank whose Init has not ended would fail with a code of its own
	}
	if len(args) > 0 && w.Rank() == w.Size()-1 {
		if err != nil {
			return err
		}
		switch args[0] {
		case "abort":
			return p.Abort(9)
		case "exit":
			os.Exit(5)
		case "kill":
			return syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
	}
	total := make([]int64, 1)
	if err == nil { // else the last rank has ended already
		err = mpi.Allreduce(w, total, []int64{int64(w.Rank())}, mpi.Sum)
	}
	if err != nil {
		if len(args) > 0 {
			select {} // the launcher ends this rank, and its exit code is not that of the job
		}
		return err
	}
	fmt.Printf("rank %d of %d: the sum is %d\n", w.Rank(), w.Size(), total[0])
	return p.Finalize()
}

// Programs run under Open MPI's mpirun. If a rank fails, mpirun ends the job with its exit code.
func TestUnderOpenMPI(t *testing.T) {
	t.Parallel()
	runsWithClusters(t)
	var want []string
	for r := range 4 {
		want = append(want, fmt.Sprintf("rank %d of 4: the sum is 6\n", r))
	}
	for how, code := range map[string]int{"": 0, "abort": 9, "exit": 5, "kill": 137} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			stdout, stderr, got := openmpitest.Run(t, nil, slices.Concat([]string{"-n", "4", "rank", "sum"}, strings.Fields(how))...)
			if got != code {
				t.Errorf("exit code %d, want %d\n%s%s", got, code, stdout, stderr)
			}
			if lines := slices.Sorted(strings.Lines(stdout)); how == "" && (!slices.Equal(lines, want) || stderr != "") {
				t.Errorf("got\n%s%s", stdout, stderr)
			}
		})
	}
}
