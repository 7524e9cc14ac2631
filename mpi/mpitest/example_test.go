package mpitest_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/hw/hwtest"
	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// exampleT stands for the *testing.T that a test has and an example has not: these are examples of tests.
type exampleT struct{ testing.TB }

func (exampleT) Name() string      { return "Example" }
func (exampleT) Helper()           {}
func (exampleT) Attr(_, _ string)  {}
func (exampleT) Failed() bool      { return false } // or Error would have been called
func (exampleT) Error(args ...any) { panic(fmt.Sprint(args...)) }

// The body of a test: func TestSum(t *testing.T).
func ExampleRun() {
	var t exampleT // in a test, its *testing.T
	mpitest.Run(t, 4, func(p *mpi.Process) error {
		x := []int{p.World().Rank()}
		if err := mpi.Allreduce(p.World(), x, x, mpi.Sum); err != nil {
			return err
		}
		if x[0] != 6 {
			return fmt.Errorf("sum is %d", x[0]) // fails the test, and ends the other ranks
		}
		if p.World().Rank() == 0 {
			fmt.Println("sum is", x[0])
		}
		return nil
	})
	// Output: sum is 6
}

// Ranks believe that they are on two nodes, so what a program does on each is tested without a second machine.
func ExampleRunWith() {
	tree, err := hwtest.FromText([]byte("-- sys/devices/system/cpu/online --\n0-1\n"))
	if err != nil {
		panic(err)
	}
	top, err := hw.Read(tree)
	if err != nil {
		panic(err)
	}
	var t exampleT // in a test, its *testing.T
	mpitest.RunWith(t, 4, mpitest.Options{Machine: func(rank int) mpitest.Machine {
		return mpitest.Machine{Name: fmt.Sprint("n", rank/2), Top: top, PUs: []int{rank % 2}}
	}}, func(p *mpi.Process) error {
		node, err := p.World().SplitType(mpi.TypeShared, 0, nil)
		if err != nil {
			return err
		}
		fmt.Printf("rank %d is rank %d of %d on its node\n", p.World().Rank(), node.Rank(), node.Size())
		return node.Free()
	})
	// Unordered output:
	// rank 0 is rank 0 of 2 on its node
	// rank 1 is rank 1 of 2 on its node
	// rank 2 is rank 0 of 2 on its node
	// rank 3 is rank 1 of 2 on its node
}

// How long a program communicates on a cluster, without the cluster: the model has 1.3 us and 25 GB/s between nodes.
func ExampleCluster() {
	cluster := &mpitest.Cluster{RanksPerNode: 64}
	err := mpitest.RanksWith(256, mpitest.Options{Virtual: cluster}, func(p *mpi.Process) error {
		start, sum := p.Wtime(), []float64{0}
		for range 10 {
			cluster.Compute(p.World().Rank(), 100*time.Microsecond)
			if err := mpi.Allreduce(p.World(), sum, []float64{1}, mpi.Sum); err != nil {
				return err
			}
		}
		if p.World().Rank() == 0 {
			fmt.Printf("%.0f ranks need %.0f us\n", sum[0], (p.Wtime()-start)*1e6)
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// 256 ranks need 1059 us
	// <nil>
}

// Process sets are those that ibrun --pset would define.
func ExampleOptions() {
	var t exampleT // in a test, its *testing.T
	mpitest.RunWith(t, 3, mpitest.Options{Psets: func() []mpitest.Pset {
		return []mpitest.Pset{{Name: "app://solvers", Ranks: []int{1, 2}}}
	}}, func(p *mpi.Process) error {
		session, err := p.OpenSession(nil)
		if err != nil {
			return err
		}
		solvers, err := session.Group("app://solvers")
		if err != nil {
			return err
		}
		if p.World().Rank() == 2 {
			fmt.Printf("rank 2 is solver %d of %d\n", solvers.Rank(), solvers.Size())
		}
		return session.Close()
	})
	// Output: rank 2 is solver 1 of 2
}

// Outside of a test the errors of the ranks are returned.
func ExampleRanks() {
	err := mpitest.Ranks(2, func(p *mpi.Process) error {
		if p.World().Rank() == 0 {
			return errors.New("no input")
		}
		return p.World().Barrier()
	})
	fmt.Println(err)
	// Output: rank 0: no input
}
