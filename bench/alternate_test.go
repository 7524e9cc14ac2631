package bench

import (
	"slices"
	"sync"
	"testing"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// TestAlternate: each setting is set once to find the number of iterations. Then every one is measured in each round, and none is
// always the first.
func TestAlternate(t *testing.T) {
	op := Ops()[0]
	var mu sync.Mutex
	var turns []int
	var results [][]Result
	mpitest.RunWith(t, 2, mpitest.Options{Unchecked: true}, func(p *mpi.Process) error {
		set := func(setting int) error {
			if p.World().Rank() == 0 {
				mu.Lock()
				turns = append(turns, setting)
				mu.Unlock()
			}
			return nil
		}
		cfg := Config{Sizes: []int{8, 1024}, Iterations: 5}
		return Alternate(p.World(), op, cfg, 3, 2, set, func(a Alternation) error {
			results = append(results, a.Results)
			for i, v := range a.Rounds {
				if len(v) != 3 || a.Results[i].Value != slices.Sorted(slices.Values(v))[1] {
					t.Errorf("setting %d: %+v, the rounds %v", i, a.Results[i], v)
				}
			}
			return nil
		})
	})
	if want := 2 * (2 + 3*2); len(turns) != want {
		t.Fatalf("set %d times, want %d: %v", len(turns), want, turns)
	}
	orders := map[bool]int{}
	for size := range 2 {
		begin := size * (2 + 3*2) // each setting is set once, and then once in each round
		if set := turns[begin : begin+2]; !slices.Equal(set, []int{0, 1}) {
			t.Errorf("first %v", set)
		}
		for round := range 3 {
			set := turns[begin+2+2*round:][:2]
			if !slices.Equal(slices.Sorted(slices.Values(set)), []int{0, 1}) {
				t.Errorf("round %d: %v", round, set)
			}
			orders[set[0] == 0]++
		}
	}
	if len(orders) != 2 {
		t.Errorf("each round had the same order: %v", turns)
	}
	if len(results) != 2 || len(results[1]) != 2 || results[1][1].Size != 1024 || results[1][1].Iterations != 15 ||
		results[0][0].Value <= 0 {
		t.Errorf("%+v", results)
	}
	mpitest.RunWith(t, 1, mpitest.Options{Unchecked: true}, func(p *mpi.Process) error {
		for _, rounds := range []int{0, 3} { // none, and a world that is too small
			if err := Alternate(p.World(), op, Config{}, rounds, 2, func(int) error { return nil }, nil); err == nil {
				t.Errorf("%d rounds among one rank: no error", rounds)
			}
		}
		return nil
	})
}
