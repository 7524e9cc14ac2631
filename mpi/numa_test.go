package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/hook"
	"github.com/ibrun/ibrun/fabric/mem"
	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/internal/bootstrap"
)

// runOnNUMA runs ranks of one node, with a core each, bound to the NUMA nodes of a list. A rank that returns errDead is
// killed.
func runOnNUMA(t *testing.T, of []int, f func(p *mpi.Process) error) {
	t.Helper()
	hub := mem.NewHub(len(of))
	nothing := func() error { return nil }
	all := make([]*hook.Domain, len(of))
	transport := hook.Wrap(hub.Transport(), hook.Options{Share: true, OnOpen: func(self int, d *hook.Domain) { all[self] = d }})
	errs := make([]error, len(of))
	var ranks sync.WaitGroup
	for rank, numa := range of {
		at := &bootstrap.Process{
			Rank: rank, Size: len(of), NUMA: numa, Started: nothing, Finalized: nothing, NodeName: "n0",
			Open: func(ctx context.Context, c *fabric.Config, _ bootstrap.Thresholds) (fabric.Domain, error) {
				return transport.Open(ctx, c)
			},
			Address: func(int) []byte { return nil },
			Nodes:   func() ([]int, error) { return make([]int, len(of)), nil },
		}
		ranks.Go(func() {
			p, err := mpi.Init(bootstrap.WithProcess(t.Context(), at), nil)
			if err == nil {
				err = f(p)
			}
			if err == nil {
				err = p.Finalize()
			}
			if err == errDead {
				for other := range all {
					if other != rank {
						all[other].Down(rank, errKilled)
					}
				}
				return
			}
			errs[rank] = err
		})
	}
	ranks.Wait()
	for rank, err := range errs {
		if err != nil {
			t.Errorf("ranks on the NUMA nodes %v: rank %d: %v", of, rank, err)
		}
	}
}

// useTwoLevels sets a table with which short collectives of few ranks use two levels, too.
func useTwoLevels(t *testing.T) {
	t.Helper()
	const rule = `{"collective": "%s", "algorithm": "shared memory, two-level"}`
	useTable(t, fmt.Sprintf(rule+","+rule+","+rule, "barrier", "reduce", "allreduce"))
}

// useTable sets a table of collectives with these rules.
func useTable(t *testing.T, rules string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "table.json")
	if err := os.WriteFile(name, []byte(`{"ibrun_collectives": 1, "rules": [`+rules+"]}"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("IBRUN_COLLECTIVES", name)
}

// TestNUMAOrder: the order in which numbers are added tells whether the ranks of NUMA nodes add theirs first.
func TestNUMAOrder(t *testing.T) {
	const big = 1e16 // big + 1 is rounded to big
	operands := []float64{big, 1, -big, 1}
	for _, c := range []struct {
		of            []int
		table         bool
		deterministic string
		want          float64
	}{
		{[]int{0, 1, 0, 1}, true, "false", 2},  // (big - big) + (1 + 1)
		{[]int{4, 4, 1, 1}, true, "false", 0},  // (big + 1) + (-big + 1)
		{[]int{0, 1, 0, 1}, false, "false", 1}, // ((big + 1) - big) + 1, for there are few ranks
		{[]int{0, -1, 0, 1}, true, "false", 1},
		{[]int{0, 0, 0, 0}, true, "false", 1},
		{[]int{0, 1, 0, 1}, true, "true", 0}, // over messages
	} {
		t.Run(fmt.Sprintf("nodes=%v/table=%v/deterministic=%v", c.of, c.table, c.deterministic), func(t *testing.T) {
			if c.table {
				useTwoLevels(t)
			}
			runOnNUMA(t, c.of, func(p *mpi.Process) error {
				w, err := p.World().DupWithInfo(infoOf(deterministic, c.deterministic))
				if err != nil {
					return err
				}
				x := slices.Repeat(operands[w.Rank():w.Rank()+1], 50)
				sum, at := make([]float64, 50), make([]float64, 50)
				for root := range w.Size() {
					err := errors.Join(mpi.Allreduce(w, sum, x, mpi.Sum), w.Barrier(), mpi.Reduce(w, at, x, mpi.Sum, root))
					if err != nil {
						return err
					}
					if sum[0] != c.want || sum[49] != c.want || w.Rank() == root && c.deterministic == "false" && at[49] != c.want {
						return fmt.Errorf("the sums are %v and %v at %d, want %v", sum[49], at[49], root, c.want)
					}
				}
				return nil
			})
		})
	}
}

// TestDeathOnNUMA: a rank, which may be the leader of its NUMA node, is killed before a collective. Every other rank gets
// ErrProcFailed at the latest in the Barrier after it.
func TestDeathOnNUMA(t *testing.T) {
	useTwoLevels(t)
	x, sum := make([]int, 20), func() []int { return make([]int, 20) }
	for name, call := range map[string]func(w *mpi.Comm) error{
		"Barrier":   (*mpi.Comm).Barrier,
		"Allreduce": func(w *mpi.Comm) error { return mpi.Allreduce(w, sum(), x, mpi.Sum) },
		"Reduce":    func(w *mpi.Comm) error { return mpi.Reduce(w, sum(), x, mpi.Sum, 3) },
	} {
		for victim := range 5 {
			var called sync.WaitGroup
			called.Add(5)
			runOnNUMA(t, []int{1, 0, 0, 1, 0}, func(p *mpi.Process) error {
				w := p.World()
				err := call(w)
				if called.Done(); err != nil {
					return err
				}
				if w.Rank() == victim {
					called.Wait()
					return errDead
				}
				if err = call(w); err == nil {
					err = w.Barrier()
				}
				if !errors.Is(err, mpi.ErrProcFailed) {
					return fmt.Errorf("%s without rank %d: %w", name, victim, err)
				}
				return errDead // Finalize would fail
			})
		}
	}
}
