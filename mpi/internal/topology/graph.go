package topology

import (
	"fmt"
	"slices"
)

// Graph lists the neighbors of each rank. A neighbor may occur several times, and be the rank itself.
type Graph [][]int

// NewGraph returns a copy of the graph. It fails if a neighbor is not a rank of the graph.
func NewGraph(neighbors [][]int) (Graph, error) {
	g := make(Graph, len(neighbors))
	for r, list := range neighbors {
		for _, to := range list {
			if uint(to) >= uint(len(neighbors)) {
				return nil, fmt.Errorf("neighbor %d of rank %d: the graph has ranks 0 to %d", to, r, len(neighbors)-1)
			}
		}
		g[r] = slices.Clone(list)
	}
	return g, nil
}

// Clone returns a copy.
func (g Graph) Clone() [][]int {
	all := make([][]int, len(g))
	for r, list := range g {
		all[r] = slices.Clone(list)
	}
	return all
}

// NumEdges returns the sum of the numbers of neighbors.
func (g Graph) NumEdges() int {
	n := 0
	for _, list := range g {
		n += len(list)
	}
	return n
}

// Links returns the links between neighbors: one message for each time that a rank lists another.
func (g Graph) Links() *Links {
	var edges []Edge
	for r, list := range g {
		for _, to := range list {
			edges = append(edges, Edge{r, to, 1})
		}
	}
	return NewLinks(len(g), edges)
}
