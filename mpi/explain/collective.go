package explain

import (
	"fmt"

	"github.com/ibrun/ibrun/mpi/internal/coll"
)

// Collective describes which algorithm a collective of some bytes uses between some ranks.
type Collective struct {
	// Name is the name of the collective, such as "allreduce". Bytes is the length of its buffer, or of the block from one rank to
	// another in gather, scatter, allgather and alltoall, or of all blocks in allgatherv and reduce_scatter.
	Name  string `json:"name"`
	Bytes int    `json:"bytes"`
	Ranks int    `json:"ranks"`
	// OnNode is the algorithm of the blocking call if all ranks are on one node, and can read each other's memory. Apart is that
	// of ranks on several nodes, and of every immediate and persistent call. The operation is commutative.
	OnNode Algorithm `json:"on_node"`
	Apart  Algorithm `json:"apart"`
}

// Algorithm is an algorithm of a collective, and the conditions under which it is selected if none before it in the table is.
type Algorithm struct {
	Name string `json:"name"`
	When string `json:"when"`
}

// Collectives explains collectives for each of their sizes and numbers of ranks. An error names an unknown collective.
func Collectives(names []string, sizes, ranks []int) (all []Collective, err error) {
	for _, name := range names {
		c, ok := coll.ParseCollective(name)
		if !ok {
			return nil, fmt.Errorf("unknown collective %q", name)
		}
		for _, n := range ranks {
			for _, size := range sizes {
				all = append(all, Collective{name, size, n, algorithm(c, size, n, coll.Direct), algorithm(c, size, n, coll.Messages)})
			}
		}
	}
	return all, nil
}

func algorithm(c coll.Collective, bytes, ranks int, f coll.Family) Algorithm {
	r := coll.Choose(c, bytes, ranks, true, f)
	return Algorithm{r.Algorithm.String(), r.Conditions()}
}
