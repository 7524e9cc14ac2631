package mpi

import "github.com/ibrun/ibrun/mpi/internal/core"

// GraphCreate creates a communicator whose ranks are a graph: neighbors[r] lists the neighbors of rank r. A rank may be
// listed several times, and by itself. All ranks give the same graph; if it is large, [Comm.DistGraphCreate] needs less
// memory. If there are more processes than the graph has ranks, the last ones get nil; a graph without ranks gives nil
// everywhere.
//
//	ring, err := world.GraphCreate([][]int{{1, 3}, {0, 2}, {1, 3}, {2, 0}}, mpi.KeepRanks)
//
// With [Reorder] a process may get another rank than it has in c, as with [Comm.CartCreate]. It fails with ErrRank if a
// neighbor is not a rank of the graph, and with ErrArg if the graph has more ranks than c or the ranks give different
// arguments. An error at one rank is an error at all ranks. The slices may be changed afterwards. It is collective.
// MPI-5.0 §8.5.3.
func (c *Comm) GraphCreate(neighbors [][]int, order RankOrder) (*Comm, error) {
	return comm(core.GraphCreate(c.core(), neighbors, bool(order)))
}

// GraphdimsGet returns the number of ranks of the graph, and how many neighbors they have together. It fails with ErrTopology
// if the communicator has no such graph. It is local. MPI-5.0 §8.5.5.
func (c *Comm) GraphdimsGet() (ranks, edges int, err error) {
	ranks, edges, err = c.core().Topology().GraphdimsGet()
	return ranks, edges, result(c.core(), "GraphdimsGet", err)
}

// GraphGet returns the neighbors of each rank, in slices that belong to the caller. It fails with ErrTopology if the
// communicator has no such graph. It is local. MPI-5.0 §8.5.5.
func (c *Comm) GraphGet() ([][]int, error) {
	all, err := c.core().Topology().GraphGet()
	return all, result(c.core(), "GraphGet", err)
}

// GraphNeighborsCount returns the number of neighbors of a rank. Errors are those of GraphNeighbors. It is local. MPI-5.0 §8.5.5.
func (c *Comm) GraphNeighborsCount(rank int) (int, error) {
	list, err := c.core().Topology().GraphNeighbors(rank)
	return len(list), result(c.core(), "GraphNeighborsCount", err)
}

// GraphNeighbors returns the neighbors of a rank in the order of GraphCreate, in a slice that belongs to the caller. It fails
// with ErrRank if there is no such rank, and with ErrTopology if the communicator has no such graph. It is local.
// MPI-5.0 §8.5.5.
func (c *Comm) GraphNeighbors(rank int) ([]int, error) {
	list, err := c.core().Topology().GraphNeighbors(rank)
	return list, result(c.core(), "GraphNeighbors", err)
}

// GraphMap returns the rank that this process should have in a graph; Undefined if it should be in none. As CartMap, it knows
// only on which node each process is. Errors are those of GraphCreate. It is local. MPI-5.0 §8.5.8.
func (c *Comm) GraphMap(neighbors [][]int) (int, error) {
	return public2(core.GraphMap(c.core(), neighbors))
}
