package mpitest

import (
	"fmt"
	"math"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/mpi"
)

// maxPairBytes is what two ranks that never exchange a message may cost, in each direction.
const maxPairBytes = 16

// TestSilentPairs: the memory of a world is linear in the number of ranks, except for some bytes for each pair of them. The
// second difference of three sizes has no part that is constant or linear. How many messages wait for their receives when the
// world starts differs from run to run, which is some bytes for each pair of so few ranks: the best of three runs counts.
func TestSilentPairs(t *testing.T) {
	t.Setenv("IBRUN_PERF", "off") // its pages are linear, and much larger
	step := soaktest.Choose(1024, 128)
	pair := math.Inf(1)
	for run := 0; run < 3 && pair > maxPairBytes; run++ {
		m := [3]float64{}
		for i := range m {
			m[i] = heapOf(t, (i+1)*step)
		}
		pair = (m[2] - 2*m[1] + m[0]) / float64(2*step*step)
		t.Logf("%d, %d and %d ranks: %.1f bytes for each pair, %.0f for each rank", step, 2*step, 3*step, pair,
			(m[1]-m[0])/float64(step)-pair*float64(3*step))
	}
	if pair > maxPairBytes {
		t.Errorf("%.1f bytes for each pair of ranks, at most %d are allowed", pair, maxPairBytes)
	}
}

// heapOf returns the bytes of the heap that a world of n ranks uses when all have started.
func heapOf(t *testing.T, n int) float64 {
	before := heapInUse()
	var after float64
	var started, ended sync.WaitGroup
	started.Add(n)
	ended.Add(1)
	go func() {
		started.Wait()
		after = heapInUse()
		ended.Done()
	}()
	Run(t, n, func(p *mpi.Process) error {
		started.Done()
		ended.Wait()
		return nil
	})
	return after - before
}

func heapInUse() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // the first one frees what has a finalizer, and the memory of pools
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// TestManyRanks runs collectives of whole processes: 4,096 with IBRUN_SOAK=1, otherwise 128.
func TestManyRanks(t *testing.T) {
	n := soaktest.Choose(4096, 128)
	var mu sync.Mutex
	last := time.Now()
	lap := func(rank int, what string) {
		if rank == 0 {
			mu.Lock()
			defer mu.Unlock()
			now := time.Now()
			t.Logf("%d ranks, %s: %v", n, what, now.Sub(last))
			last = now
		}
	}
	Run(t, n, func(p *mpi.Process) error {
		c := p.World()
		rank := c.Rank()
		lap(rank, "start")
		for _, op := range []struct {
			name string
			run  func(c *mpi.Comm) error
		}{
			{"barrier", (*mpi.Comm).Barrier}, {"bcast", checkBcast}, {"allreduce", checkAllreduce}, {"alltoall", checkAlltoall},
		} {
			if err := op.run(c); err != nil {
				return fmt.Errorf("%s: %w", op.name, err)
			}
			if err := c.Barrier(); err != nil {
				return err
			}
			lap(rank, op.name)
		}
		return nil
	})
	lap(0, "end")
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	t.Logf("%d MiB from the system", m.Sys>>20)
}

func checkBcast(c *mpi.Comm) error {
	x := []int64{int64(c.Rank() + 1)}
	if err := mpi.Bcast(c, x, 0); err != nil {
		return err
	}
	if x[0] != 1 {
		return fmt.Errorf("rank %d has %d", c.Rank(), x[0])
	}
	return nil
}

func checkAllreduce(c *mpi.Comm) error {
	x, n := []int64{int64(c.Rank())}, int64(c.Size())
	if err := mpi.Allreduce(c, x, x, mpi.Sum); err != nil {
		return err
	}
	if x[0] != n*(n-1)/2 {
		return fmt.Errorf("the sum is %d", x[0])
	}
	return nil
}

func checkAlltoall(c *mpi.Comm) error {
	n := c.Size()
	out, in := make([]int64, n), make([]int64, n)
	for i := range out {
		out[i] = int64(c.Rank()*n + i)
	}
	if err := mpi.Alltoall(c, in, out); err != nil {
		return err
	}
	for i, x := range in {
		if x != int64(i*n+c.Rank()) {
			return fmt.Errorf("rank %d has sent %d", i, x)
		}
	}
	return nil
}
