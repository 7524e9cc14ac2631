package explain

import (
	"fmt"
	"slices"

	"github.com/ibrun/ibrun/mpi/internal/coll"
)

// Collective describes which algorithm a collective of some bytes uses between some ranks.
type Collective struct {
	// Name is the name of the collective, such as "allreduce". Bytes is the length of its buffer, or of the block from one rank to
	// another in gather, scatter, allgather and alltoall, or of all blocks in allgatherv and reduce_scatter.
	Name  string `json:"name"`
	Bytes int    `json:"bytes"`
	Ranks int    `json:"ranks"`
	// OnNode is the algorithm of the blocking call if all ranks are on one node, and can read each other's memory. Immediate is
	// that of the immediate call there, after a blocking collective of the communicator. Apart is that of ranks on several nodes,
	// and of every persistent call. The operation is commutative.
	OnNode    Algorithm `json:"on_node"`
	Immediate Algorithm `json:"immediate"`
	Apart     Algorithm `json:"apart"`
}

// Algorithm is an algorithm of a collective, and the conditions under which it is selected if none before it in the table is.
type Algorithm struct {
	Name string `json:"name"`
	When string `json:"when"`
}

// Collectives explains collectives for each of their sizes and numbers of ranks, with the table that a variable of the
// environment names, if there is one. An error names an unknown collective, or a wrong table.
func Collectives(getenv func(string) string, names []string, sizes, ranks []int) (all []Collective, err error) {
	t, err := coll.ReadTable(getenv)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		c, ok := coll.ParseCollective(name)
		if !ok {
			return nil, fmt.Errorf("unknown collective %q", name)
		}
		for _, n := range ranks {
			for _, size := range sizes {
				x := Collective{Name: name, Bytes: size, Ranks: n, OnNode: algorithm(t, c, size, n, coll.Direct),
					Apart: algorithm(t, c, size, n, coll.Messages)}
				x.Immediate = x.Apart
				if most := coll.MaxImmediateBytes(c, n); size <= most && n > 1 {
					x.Immediate = Algorithm{coll.SharedMemory.String(), fmt.Sprintf("up to %d bytes", most)}
				}
				all = append(all, x)
			}
		}
	}
	return all, nil
}

func algorithm(t *coll.Table, c coll.Collective, bytes, ranks int, f coll.Family) Algorithm {
	r := coll.Choose(t, c, bytes, ranks, true, f)
	return Algorithm{r.Algorithm.String(), r.Conditions()}
}

// TableVariable is the environment variable that names a file with a table of rules, which are searched first. All ranks of a job
// must have the same table.
const TableVariable = coll.TableVariable

// Rule says for which sizes and numbers of ranks an algorithm is used. 0 means any. Bytes are counted as in [Collective].
type Rule struct {
	Collective, Algorithm        string
	MaxBytes, MinRanks, MaxRanks int
}

// EncodeTable returns the content of a file for TableVariable. The collectives and algorithms must exist.
func EncodeTable(rules []Rule) []byte {
	t := &coll.Table{}
	for _, x := range rules {
		c, _ := coll.ParseCollective(x.Collective)
		r := coll.Rule{Collective: c, MaxBytes: x.MaxBytes, MinRanks: x.MinRanks, MaxRanks: x.MaxRanks}
		for _, a := range coll.Candidates(c) {
			if a.String() == x.Algorithm {
				r.Algorithm = a
			}
		}
		t.Rules = append(t.Rules, r)
	}
	return t.Encode()
}

// Measured returns the names of the collectives of which there are several algorithms for blocking calls.
func Measured() (names []string) {
	for c := coll.OfBarrier; c <= coll.OfReduceScatter; c++ {
		if len(coll.Candidates(c)) > 1 {
			names = append(names, c.String())
		}
	}
	return names
}

// Algorithms returns the names of the algorithms of a collective between some ranks of a node.
func Algorithms(name string, ranks int) (names []string) {
	c, _ := coll.ParseCollective(name)
	possible := coll.Algorithms(c, ranks)
	for _, a := range coll.Candidates(c) {
		if a == coll.SharedMemory || a == coll.DirectCopy || slices.Contains(possible, a) {
			names = append(names, a.String())
		}
	}
	return names
}
