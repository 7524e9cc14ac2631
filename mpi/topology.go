package mpi

import "github.com/ibrun/ibrun/mpi/internal/core"

// Topology is a kind of virtual topology, or Undefined. MPI-5.0 §8.5.5.
type Topology int32

// The kinds of virtual topologies, with the values of the MPI-5.0 ABI. MPI-5.0 §8.5.5.
const (
	Cart      Topology = core.Cart      // a grid; see CartCreate
	Graph     Topology = core.Graph     // a graph that every rank knows whole; see GraphCreate
	DistGraph Topology = core.DistGraph // a graph of which every rank knows its edges; see DistGraphCreate
)

// String returns the name of the constant.
func (t Topology) String() string {
	switch t {
	case Cart:
		return "Cart"
	case Graph:
		return "Graph"
	case DistGraph:
		return "DistGraph"
	}
	return "Undefined"
}

// RankOrder says whether processes keep their ranks in a communicator with a topology. MPI-5.0 §8.5.
type RankOrder bool

const (
	// KeepRanks keeps the order of the ranks: the process with rank r in the old communicator has rank r in the new one, if that
	// has so many.
	KeepRanks RankOrder = false
	// Reorder gives ranks to processes so that neighbors are close to each other. See [Comm.CartCreate].
	Reorder RankOrder = true
)

// TopoTest returns the kind of topology of the communicator; Undefined if it has none. It is local. MPI-5.0 §8.5.5.
func (c *Comm) TopoTest() (Topology, error) {
	return Topology(c.core().Topology().TopoTest()), result(c.core(), "TopoTest", nil)
}

// Neighbors returns the neighbors of this rank, with any topology, in slices that belong to the caller. They are in the order
// in which neighborhood collectives use them. In a grid that is for each dimension the neighbor at -1, then that at +1, which
// may be the same rank, or ProcNull beyond the edge. In a graph both lists are those of GraphNeighbors for this rank, and in
// a distributed graph those of DistGraphNeighbors. It fails with ErrTopology if the communicator has no topology. It is
// local. MPI-5.0 §8.6.
func (c *Comm) Neighbors() (Neighbors, error) {
	n, err := c.core().Topology().Neighbors()
	return Neighbors(n), result(c.core(), "Neighbors", err)
}
