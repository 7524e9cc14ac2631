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
	// OnNode is the algorithm of the blocking call if all ranks are on one node with a core for each,
	// and can read each other's memory; OnOversubscribedNode is the same with fewer cores than ranks.
	// Immediate is that of the immediate call on one node, after a blocking collective of the
	// communicator. OnNodes is that of the blocking call, and of an immediate one after it, if the
	// ranks are on several nodes with the same number of ranks and a core for each; PersistentOnNodes
	// is that of the persistent call there. OnNUMANodes is that of the blocking call if the ranks are
	// on one node with a core for each, and bound to several NUMA nodes. Apart is that of ranks on
	// nodes of their own, and of the persistent call on one node. The operation is a predefined one.
	OnNode               Algorithm `json:"on_node"`
	OnOversubscribedNode Algorithm `json:"on_oversubscribed_node"`
	OnNUMANodes          Algorithm `json:"on_numa_nodes"`
	Immediate            Algorithm `json:"immediate"`
	OnNodes              Algorithm `json:"on_nodes"`
	PersistentOnNodes    Algorithm `json:"persistent_on_nodes"`
	Apart                Algorithm `json:"apart"`
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
				nodes := nodesOf(n)
				memory, numa := nodes, coll.Direct
				if nodes != coll.Messages {
					memory, numa = nodes|coll.NodeMemory, coll.Direct|coll.NUMANodes
				}
				x := Collective{Name: name, Bytes: size, Ranks: n, OnNode: algorithm(t, c, size, n, coll.Direct),
					OnOversubscribedNode: algorithm(t, c, size, n, coll.Direct|coll.Oversubscribed),
					OnNUMANodes:          algorithm(t, c, size, n, numa), OnNodes: algorithm(t, c, size, n, memory),
					PersistentOnNodes: algorithm(t, c, size, n, nodes), Apart: algorithm(t, c, size, n, coll.Messages)}
				x.Immediate = immediate(t, c, size, n, x.Apart)
				all = append(all, x)
			}
		}
	}
	return all, nil
}

// nodesOf returns the algorithms that some ranks on several nodes can use, on at least two of which are several ranks if
// possible.
func nodesOf(ranks int) coll.Family {
	of := make([]int32, ranks)
	for i := range of {
		of[i] = int32(2 * i / max(ranks, 1))
	}
	return coll.NewNodes(of).Family()
}

// immediate returns the algorithm of an immediate collective on one node. messages is that which it uses otherwise.
func immediate(t *coll.Table, c coll.Collective, bytes, ranks int, messages Algorithm) Algorithm {
	if r := coll.ChooseImmediate(t, c, bytes, ranks, coll.Direct); r.Algorithm != coll.None {
		return Algorithm{r.Algorithm.String(), r.Conditions()}
	}
	return messages
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
	// Collective is a name of [Measured], and Algorithm one of [Algorithms].
	Collective, Algorithm        string
	MaxBytes, MinRanks, MaxRanks int
	// Nodes says that it is for ranks on several nodes, with several ranks on one of them.
	Nodes bool
}

// EncodeTable returns the content of a file for TableVariable. The collectives and algorithms must exist.
func EncodeTable(rules []Rule) []byte {
	t := &coll.Table{}
	for _, x := range rules {
		c, immediate, _ := coll.ParseCall(x.Collective)
		r := coll.Rule{Collective: c, MaxBytes: x.MaxBytes, MinRanks: x.MinRanks, MaxRanks: x.MaxRanks}
		if r.Algorithm, _ = coll.ParseAlgorithm(c, immediate, x.Algorithm); x.Nodes {
			r.Needs = coll.TwoLevels
		}
		if immediate {
			t.Immediate = append(t.Immediate, r)
		} else {
			t.Rules = append(t.Rules, r)
		}
	}
	return t.Encode()
}

// MessagesName is the name of the algorithm of an immediate collective that uses messages.
const MessagesName = coll.MessagesName

// Measured returns the names of the collectives of which there are several algorithms: for blocking calls, such as bcast, and
// then, unless the ranks are apart, for immediate ones within a node, such as ibcast.
func Measured(apart bool) (names []string) {
	for c := coll.OfBarrier; c <= coll.OfReduceScatter; c++ {
		if len(coll.Candidates(c)) > 1 {
			names = append(names, c.String())
		}
	}
	for c := coll.OfBarrier; c <= coll.OfReduceScatter && !apart; c++ {
		if len(coll.ImmediateCandidates(c)) > 1 {
			names = append(names, "i"+c.String())
		}
	}
	return names
}

// Algorithms returns the names of the algorithms of a collective between some ranks of one node, or of several nodes with the
// same number of ranks. One of an immediate collective is MessagesName.
func Algorithms(name string, ranks int, nodes bool) (names []string) {
	c, immediate, _ := coll.ParseCall(name)
	family, candidates := coll.Direct, coll.Candidates(c)
	if immediate {
		candidates = coll.ImmediateCandidates(c)
	}
	if nodes {
		family = coll.EvenLevels
	}
	for _, a := range candidates {
		if a == coll.None || a.Possible(c, ranks, family) {
			names = append(names, a.TableName())
		}
	}
	return names
}
