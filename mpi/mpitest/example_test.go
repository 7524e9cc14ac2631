package mpitest_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/hw/hwtest"
	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// Ranks believe that they are on two nodes, so what a program does on each is tested without a second machine.
func ExampleRanksWith() {
	tree, err := hwtest.FromText([]byte("-- sys/devices/system/cpu/online --\n0-1\n"))
	if err != nil {
		panic(err)
	}
	top, err := hw.Read(tree)
	if err != nil {
		panic(err)
	}
	// In a test: mpitest.RunWith(t, 4, ...)
	err = mpitest.RanksWith(4, mpitest.Options{Machine: func(rank int) mpitest.Machine {
		return mpitest.Machine{Name: fmt.Sprint("n", rank/2), Top: top, PUs: []int{rank % 2}}
	}}, func(p *mpi.Process) error {
		node, err := p.World().SplitType(mpi.TypeShared, 0, nil)
		if err != nil {
			return err
		}
		fmt.Printf("rank %d is rank %d of %d on its node\n", p.World().Rank(), node.Rank(), node.Size())
		return node.Free()
	})
	if err != nil {
		panic(err)
	}
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
	// In a test: mpitest.RunWith(t, 3, ...)
	err := mpitest.RanksWith(3, mpitest.Options{Psets: func() []mpitest.Pset {
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
	if err != nil {
		panic(err)
	}
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
