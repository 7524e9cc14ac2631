package bench

import (
	"slices"
	"sync"
	"testing"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// TestAlternate: settings take turns, every one is measured in each round, and none is always the first.
func TestAlternate(t *testing.T) {
	op := Ops()[0]
	var mu sync.Mutex
	var turns []int
	var results [][]Result
	mpitest.RunWith(t, 2, mpitest.Options{Unchecked: true}, func(p *mpi.Process) error {
		set := func(setting int) {
			if p.World().Rank() == 0 {
				mu.Lock()
				turns = append(turns, setting)
				mu.Unlock()
			}
		}
		cfg := Config{Sizes: []int{8, 1024}, Iterations: 5}
		return Alternate(p.World(), op, cfg, 3, 2, set, func(r []Result) error {
			results = append(results, slices.Clone(r))
			return nil
		})
	})
	if want := []int{0, 1, 1, 0, 0, 1, 0, 1, 1, 0, 0, 1}; !slices.Equal(turns, want) {
		t.Errorf("turns %v, want %v", turns, want)
	}
	if len(results) != 2 || len(results[1]) != 2 || results[1][1].Size != 1024 || results[1][1].Iterations != 15 ||
		results[0][0].Value <= 0 {
		t.Errorf("%+v", results)
	}
	mpitest.RunWith(t, 1, mpitest.Options{Unchecked: true}, func(p *mpi.Process) error {
		for _, rounds := range []int{0, 3} { // none, and a world that is too small
			if err := Alternate(p.World(), op, Config{}, rounds, 2, func(int) {}, nil); err == nil {
				t.Errorf("%d rounds among one rank: no error", rounds)
			}
		}
		return nil
	})
}
