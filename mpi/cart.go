package mpi

import "github.com/ibrun/ibrun/mpi/internal/core"

// Grid is the Cartesian topology of a communicator. All slices have an element for each dimension. MPI-5.0 §8.5.5.
type Grid struct {
	// Dims is the number of ranks in each dimension.
	Dims []int
	// Periodic says in which dimensions the last rank is a neighbor of the first.
	Periodic []bool
	// Coords are the coordinates of this rank, from 0.
	Coords []int
}

// DimsCreate returns dims with each 0 replaced, so that the product is n: a grid for n ranks. The new numbers are as equal as
// possible, the largest first.
//
//	dims, err := mpi.DimsCreate(world.Size(), 0, 0) // 4 3 if there are 12 ranks
//
// It fails with ErrDims if a number is negative, or n is not a multiple of those that are given, and with ErrArg if n is not
// positive or above 2³¹-1. It is local. MPI-5.0 §8.5.2.
func DimsCreate(n int, dims ...int) ([]int, error) { return public2(core.DimsCreate(n, dims)) }

// CartCreate creates a communicator whose ranks are a grid, with dims[i] ranks in dimension i. Ranks are in row-major order:
// the last coordinate changes fastest. periodic tells which dimensions are periodic; nil means none. All ranks give the same
// arguments. If there are more processes than the grid has ranks, the last ones get nil. Without dimensions the grid has one
// rank.
//
//	dims, err := mpi.DimsCreate(world.Size(), 0, 0)
//	grid, err := world.CartCreate(dims, nil, mpi.Reorder)
//	left, right, err := grid.CartShift(1, 1)
//
// With [Reorder] a process may get another rank than it has in c: read Rank from the new communicator before work is divided.
// Neighbors then share a node if possible, and on a node a NUMA node, a last-level cache and a core, as far as the processes
// are bound. The messages between neighbors that cross nodes, NUMA nodes, caches or cores are never more than without
// Reorder.
//
// It fails with ErrDims if a dimension is not positive or the grid has more ranks than c, and with ErrArg if periodic has another
// length or the ranks give different arguments. An error at one rank is an error at all ranks. The error handler is that of c;
// attributes and hints are not copied. It is collective. MPI-5.0 §8.5.1.
func (c *Comm) CartCreate(dims []int, periodic []bool, order RankOrder) (*Comm, error) {
	return comm(core.CartCreate(c.core(), dims, periodic, bool(order)))
}

// CartSub divides a grid into grids of fewer dimensions, those for which keep is true, and returns the one to which this rank
// belongs. Each has a communicator: for a grid of 2 by 3 by 4, keeping dimensions 0 and 2 gives three grids of 2 by 4.
// Without a dimension to keep, each rank gets a grid of its own that has no dimensions. It fails with ErrTopology if the
// communicator is not a grid, and with ErrArg if keep has another length than the grid has dimensions, or is not the same at all
// ranks. It is collective. MPI-5.0 §8.5.7.
func (c *Comm) CartSub(keep []bool) (*Comm, error) { return comm(core.CartSub(c.core(), keep)) }

// CartdimGet returns the number of dimensions of the grid. It fails with ErrTopology if the communicator is not a grid. It is
// local. MPI-5.0 §8.5.5.
func (c *Comm) CartdimGet() (int, error) {
	n, err := c.core().Topology().CartdimGet()
	return n, result(c.core(), "CartdimGet", err)
}

// CartGet returns the grid, in slices that belong to the caller. It fails with ErrTopology if the communicator is not a grid. It
// is local. MPI-5.0 §8.5.5.
func (c *Comm) CartGet() (Grid, error) {
	dims, periodic, coords, err := c.core().Topology().CartGet()
	return Grid{dims, periodic, coords}, result(c.core(), "CartGet", err)
}

// CartRank returns the rank at the coordinates. A coordinate of a periodic dimension may be any number; in another one it
// must be in the grid, and CartRank fails with ErrArg. It also fails with ErrArg if the number of coordinates is wrong, and
// with ErrTopology if the communicator is not a grid. It is local. MPI-5.0 §8.5.5.
func (c *Comm) CartRank(coords []int) (int, error) {
	r, err := c.core().Topology().CartRank(coords)
	return r, result(c.core(), "CartRank", err)
}

// CartCoords returns the coordinates of a rank, in a slice that belongs to the caller. It fails with ErrRank if there is no
// such rank, and with ErrTopology if the communicator is not a grid. It is local. MPI-5.0 §8.5.5.
func (c *Comm) CartCoords(rank int) ([]int, error) {
	coords, err := c.core().Topology().CartCoords(rank)
	return coords, result(c.core(), "CartCoords", err)
}

// CartShift returns the ranks with which this rank communicates if all ranks send by step along a dimension: it receives from
// source and sends to dest. Beyond the edge of the grid they are ProcNull, so that Send and Recv need no special case there.
// It fails with ErrDims if there is no such dimension, and with ErrTopology if the communicator is not a grid. It is local.
// MPI-5.0 §8.5.6.
func (c *Comm) CartShift(dim, step int) (source, dest int, err error) {
	source, dest, err = c.core().Topology().CartShift(dim, step)
	return source, dest, result(c.core(), "CartShift", err)
}

// CartMap returns the rank that this process should have in a grid; Undefined if it should be in none. Because it is local,
// it knows only on which node each process is; CartCreate with [Reorder] asks the processes to which part of their node they
// are bound. Errors are those of CartCreate. MPI-5.0 §8.5.8.
func (c *Comm) CartMap(dims []int, periodic []bool) (int, error) {
	return public2(core.CartMap(c.core(), dims, periodic))
}
