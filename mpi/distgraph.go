package mpi

import "github.com/ibrun/ibrun/mpi/internal/core"

// Edge is a directed edge of a graph of ranks: rank From sends messages to rank To. Weight is an amount in units of
// the program's choice; it must not be negative. MPI-5.0 §8.5.4.
type Edge struct {
	From, To int
	Weight   int
}

// Neighbors are the edges at one rank: incoming edges from Sources, and outgoing edges to Destinations. Each list of
// weights has the length of its list of ranks. Both lists of weights are nil for a graph without weights.
// MPI-5.0 §8.5.4.
type Neighbors struct {
	Sources, SourceWeights           []int
	Destinations, DestinationWeights []int
}

// DistGraphCreateAdjacent creates a communicator of the same ranks with a graph. Each rank gives the edges at itself,
// so both ranks of an edge give it. An edge may occur several times, and may lead from a rank to itself. Either all
// ranks give weights, or none does. Hints are as for DupWithInfo.
//
// With [Reorder] a process may get another rank, and with it the edges that the process with this rank in c has given: Neighbors
// tells a process its edges. The ranks with the heaviest edges between them get processes on one node, NUMA node, cache or core.
// See [Comm.CartCreate].
//
// An error at one rank is an error at all ranks. It is collective. MPI-5.0 §8.5.4.
func (c *Comm) DistGraphCreateAdjacent(n Neighbors, info *Info, order RankOrder) (*Comm, error) {
	return comm(core.DistGraphCreateAdjacent(c.core(), core.Neighbors(n), info.core(), bool(order)))
}

// coreEdges returns a copy of the edges, as core takes them.
func coreEdges(edges []Edge) []core.Edge {
	all := make([]core.Edge, len(edges))
	for i, e := range edges {
		all[i] = core.Edge(e)
	}
	return all
}

// DistGraphCreate is DistGraphCreateAdjacent for edges between any ranks. Each edge is given once, by any rank.
// weighted selects whether weights are used; it must be the same at all ranks. A rank's edges are ordered by the rank
// that gave them, and then as given. MPI-5.0 §8.5.4.
func (c *Comm) DistGraphCreate(edges []Edge, weighted bool, info *Info, order RankOrder) (*Comm, error) {
	return comm(core.DistGraphCreate(c.core(), coreEdges(edges), weighted, info.core(), bool(order)))
}

// DistGraphNeighbors returns the edges at this rank, in slices that belong to the caller. It fails with ErrTopology
// if the communicator has no distributed graph. A duplicate has the graph of the original. It is local. MPI-5.0 §8.5.5.
func (c *Comm) DistGraphNeighbors() (Neighbors, error) {
	x, err := c.core().Topology().DistGraphNeighbors()
	return Neighbors(x), result(c.core(), "DistGraphNeighbors", err)
}

// DistGraphNeighborsCount returns the numbers of incoming and outgoing edges at this rank, and whether they have weights. It
// fails with ErrTopology if the communicator has no distributed graph. It is local. MPI-5.0 §8.5.5.
func (c *Comm) DistGraphNeighborsCount() (sources, destinations int, weighted bool, err error) {
	sources, destinations, weighted, err = c.core().Topology().DistGraphNeighborsCount()
	return sources, destinations, weighted, result(c.core(), "DistGraphNeighborsCount", err)
}
