package launch

import (
	"cmp"
	"slices"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
	"github.com/ibrun/ibrun/internal/ranklink"
)

// processSets converts the process sets that the user has defined. size is the number of ranks of
// the job.
func processSets(defined []cli.Pset, size int) ([]ranklink.Pset, error) {
	var sets []ranklink.Pset
	for _, p := range defined {
		ranges := slices.SortedFunc(slices.Values(p.Ranks), func(a, b cli.Range) int { return cmp.Compare(a.Low, b.Low) })
		set := ranklink.Pset{Name: p.Name}
		for _, r := range ranges {
			if r.High >= size {
				return nil, exitcode.Errorf(exitcode.UsageError, "there is no rank %d for process set %s; the last is %d",
					r.High, p.Name, size-1)
			}
			if n := len(set.Ranks); n > 0 && r.Low <= set.Ranks[n-1][1]+1 {
				set.Ranks[n-1][1] = max(set.Ranks[n-1][1], r.High)
				continue
			}
			set.Ranks = append(set.Ranks, [2]int{r.Low, r.High})
		}
		sets = append(sets, set)
	}
	return sets, nil
}
