package core

import (
	"slices"

	"github.com/ibrun/ibrun/mpi/internal/topology"
	"github.com/ibrun/ibrun/perf"
)

// GraphCreate creates a communicator whose ranks are a graph.
func GraphCreate(c *Comm, neighbors [][]int, reorder bool) (*Comm, error) {
	const call = perf.GraphCreate
	a, err := begin(c, call, c.checkIntracomm(call.String()))
	if err != nil {
		return nil, err
	}
	defer a.end()
	g, failed := newGraph(len(c.peers), neighbors)
	if err := a.agreeSame(c.wrapError(a.op, failed), g, reorder); err != nil {
		return nil, err
	}
	order := firstNumbers[int](len(g)) // the ranks keep their numbers
	if reorder && len(g) > 0 {
		if order, err = a.reordered(len(g), nil, g.Links); err != nil {
			return nil, err
		}
	}
	return a.newTopologyComm(g, order)
}

// newGraph returns a graph for a number of processes, which may be more than it has ranks.
func newGraph(processes int, neighbors [][]int) (topology.Graph, error) {
	if len(neighbors) > processes {
		return nil, faultf(ErrArg, "the graph has %d ranks, but the communicator has %d", len(neighbors), processes)
	}
	g, err := topology.NewGraph(neighbors)
	if err != nil {
		return nil, WithClass(ErrRank, err)
	}
	return g, nil
}

// graph returns the graph.
func (t *Topology) graph() (topology.Graph, error) {
	return topologyAs[topology.Graph](t, "graph topology")
}

// GraphdimsGet returns the number of ranks of the graph and the sum of the numbers of their
// neighbors.
func (t *Topology) GraphdimsGet() (ranks, edges int, err error) {
	g, err := t.graph()
	if err != nil {
		return 0, 0, err
	}
	return len(g), g.NumEdges(), nil
}

// GraphGet returns the neighbors of each rank, in slices that belong to the caller.
func (t *Topology) GraphGet() ([][]int, error) {
	g, err := t.graph()
	if err != nil {
		return nil, err
	}
	return g.Clone(), nil
}

// GraphNeighbors returns the neighbors of a rank, in a slice that belongs to the caller.
func (t *Topology) GraphNeighbors(rank int) ([]int, error) {
	g, err := t.graph()
	if err != nil {
		return nil, err
	}
	if uint(rank) >= uint(len(g)) {
		return nil, WithClass(ErrRank, rankError(rank, len(g)))
	}
	return slices.Clone(g[rank]), nil
}

// GraphMap returns the rank that this process should have in a graph; Undefined if it should be in
// none.
func GraphMap(c *Comm, neighbors [][]int) (int, error) {
	const op = "GraphMap"
	if err := c.checkIntracomm(op); err != nil {
		return Undefined, err
	}
	g, err := newGraph(len(c.peers), neighbors)
	if err != nil {
		return Undefined, c.wrapError(op, err)
	}
	rank, err := mapRank(c, len(g), nil, g.Links())
	return rank, c.wrapError(op, err)
}
