package core

import (
	"fmt"

	"github.com/ibrun/ibrun/mpi/internal/topology"
	"github.com/ibrun/ibrun/perf"
)

// CartCreate creates a communicator whose ranks are a grid.
func CartCreate(c *Comm, dims []int, periodic []bool, reorder bool) (*Comm, error) {
	const call = perf.CartCreate
	a, err := begin(c, call, c.checkIntracomm(call.String()))
	if err != nil {
		return nil, err
	}
	defer a.end()
	g, failed := newCart(len(c.peers), dims, periodic)
	failed = c.wrapError(a.op, failed)
	// The arguments are compared below, where nil and a list of false must not differ.
	if failed == nil {
		periodic = g.Periodic() // nil is the same as false everywhere
	}
	if err := a.agreeSame(failed, dims, periodic, reorder); err != nil {
		return nil, err
	}
	order := firstNumbers[int](g.Size()) // the ranks keep their numbers
	if reorder {
		if order, err = a.reordered(g.Size(), g, g.Links); err != nil {
			return nil, err
		}
	}
	return a.newTopologyComm(g, order)
}

// newCart returns a grid for a number of processes, which may be more than it has ranks.
func newCart(processes int, dims []int, periodic []bool) (*topology.Cart, error) {
	if periodic != nil && len(periodic) != len(dims) {
		return nil, faultf(ErrArg, "got %d values of periodic for %d dimensions", len(periodic), len(dims))
	}
	g, err := topology.NewCart(dims, periodic, processes)
	if err != nil {
		return nil, WithClass(ErrDims, err)
	}
	return g, nil
}

// cart returns the grid.
func (t *Topology) cart() (*topology.Cart, error) {
	return topologyAs[*topology.Cart](t, "Cartesian topology")
}

// CartSub divides the grid into grids of the dimensions that are kept.
func CartSub(c *Comm, keep []bool) (*Comm, error) {
	const call = perf.CartSub
	g, err := c.Topology().cart()
	// Without a grid no rank takes part: the topology is that of all ranks, so all of them return
	// here.
	a, err := begin(c, call, c.CallResult(call.String(), err))
	if err != nil {
		return nil, err
	}
	defer a.end()
	var failed error
	if g.NumDims() == 0 {
		keep = nil // of a grid without dimensions there is one part
	} else if len(keep) != g.NumDims() {
		failed = c.newError(a.op, ErrArg, fmt.Errorf("got %d values of keep for %d dimensions", len(keep), g.NumDims()))
	}
	if err := a.agreeSame(failed, keep); err != nil {
		return nil, err
	}
	sub, part, _ := g.Sub(c.Rank(), keep)
	var order []int // ranks of one part have their new order already: the grids are row-major
	for r := range c.peers {
		if _, other, _ := g.Sub(r, keep); other == part {
			order = append(order, r)
		}
	}
	return a.newTopologyComm(sub, order)
}

// CartdimGet returns the number of dimensions.
func (t *Topology) CartdimGet() (int, error) {
	g, err := t.cart()
	if err != nil {
		return 0, err
	}
	return g.NumDims(), nil
}

// CartGet returns the grid and the coordinates of this rank, in slices that belong to the caller.
func (t *Topology) CartGet() (dims []int, periodic []bool, coords []int, err error) {
	g, err := t.cart()
	if err != nil {
		return nil, nil, nil, err
	}
	return g.Dims(), g.Periodic(), g.Coords(t.rank), nil
}

// CartRank returns the rank at the coordinates.
func (t *Topology) CartRank(coords []int) (int, error) {
	g, err := t.cart()
	if err != nil {
		return Undefined, err
	}
	r, err := g.Rank(coords)
	if err != nil {
		return Undefined, WithClass(ErrArg, err)
	}
	return r, nil
}

// CartCoords returns the coordinates of a rank, in a slice that belongs to the caller.
func (t *Topology) CartCoords(rank int) ([]int, error) {
	g, err := t.cart()
	if err != nil {
		return nil, err
	}
	if uint(rank) >= uint(g.Size()) {
		return nil, WithClass(ErrRank, rankError(rank, g.Size()))
	}
	return g.Coords(rank), nil
}

// CartShift returns the ranks from which this rank receives and to which it sends, if all ranks
// send by step along a dimension.
func (t *Topology) CartShift(dim, step int) (source, dest int, err error) {
	g, err := t.cart()
	if err != nil {
		return ProcNull, ProcNull, err
	}
	if uint(dim) >= uint(g.NumDims()) {
		return ProcNull, ProcNull, faultf(ErrDims, "the grid has no dimension %d: it has %d dimensions", dim, g.NumDims())
	}
	source, dest = g.Shift(t.rank, dim, step)
	return source, dest, nil
}

// CartMap returns the rank that this process should have in a grid; Undefined if it should be in
// none.
func CartMap(c *Comm, dims []int, periodic []bool) (int, error) {
	const op = "CartMap"
	if err := c.checkIntracomm(op); err != nil {
		return Undefined, err
	}
	g, err := newCart(len(c.peers), dims, periodic)
	if err != nil {
		return Undefined, c.wrapError(op, err)
	}
	rank, err := mapRank(c, g.Size(), g, g.Links())
	return rank, c.wrapError(op, err)
}

// DimsCreate returns dims with its zeros replaced, so that their product is n.
func DimsCreate(n int, dims []int) ([]int, error) {
	const op = "DimsCreate"
	if n <= 0 || n > topology.MaxRanks {
		return nil, newError(op, ErrArg, fmt.Errorf("%d ranks: it must be from 1 to %d", n, topology.MaxRanks))
	}
	all, err := topology.Balance(n, dims)
	if err != nil {
		return nil, newError(op, ErrDims, err)
	}
	return all, nil
}
