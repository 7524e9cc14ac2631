package topology

import (
	"fmt"
	"math/bits"
	"slices"
)

// ProcNull is the rank of the neighbor beyond the edge of a grid. It is the ProcNull of package mpi.
const ProcNull = -3

// Cart is a grid of ranks in row-major order: the last coordinate changes fastest. It does not change after NewCart.
type Cart struct {
	dims     []int
	periodic []bool
	size     int
}

// NewCart returns a grid. A nil periodic means that no dimension is periodic. It fails if a dimension is not positive, or if the
// grid has more than most ranks. Grids without dimensions have one rank.
func NewCart(dims []int, periodic []bool, most int) (*Cart, error) {
	c := &Cart{dims: slices.Clone(dims), periodic: make([]bool, len(dims)), size: 1}
	copy(c.periodic, periodic)
	for i, n := range dims {
		if n <= 0 {
			return nil, fmt.Errorf("dimension %d has %d ranks: it needs at least one", i, n)
		}
		over, size := bits.Mul64(uint64(c.size), uint64(n))
		if over != 0 || size > uint64(most) {
			return nil, fmt.Errorf("a grid of %v has more ranks than the communicator, which has %d", dims, most)
		}
		c.size = int(size)
	}
	if c.size > most {
		return nil, fmt.Errorf("a grid of %v has more ranks than the communicator, which has %d", dims, most)
	}
	return c, nil
}

// Size returns the number of ranks.
func (c *Cart) Size() int { return c.size }

// Dims returns the number of ranks in each dimension, in a slice of the caller.
func (c *Cart) Dims() []int { return slices.Clone(c.dims) }

// NumDims returns the number of dimensions.
func (c *Cart) NumDims() int { return len(c.dims) }

// Periodic tells which dimensions are periodic, in a slice of the caller.
func (c *Cart) Periodic() []bool { return slices.Clone(c.periodic) }

// Coords returns the coordinates of a rank, which must be in the grid.
func (c *Cart) Coords(rank int) []int {
	coords := make([]int, len(c.dims))
	for i := len(c.dims) - 1; i >= 0; i-- {
		coords[i] = rank % c.dims[i]
		rank /= c.dims[i]
	}
	return coords
}

// Rank returns the rank at the coordinates. A coordinate of a periodic dimension may be any number.
func (c *Cart) Rank(coords []int) (int, error) {
	if len(c.dims) == 0 {
		return 0, nil // as the standard defines it, whatever coords contains
	}
	if len(coords) != len(c.dims) {
		return 0, fmt.Errorf("got %d coordinates for %d dimensions", len(coords), len(c.dims))
	}
	rank := 0
	for i, x := range coords {
		n := c.dims[i]
		if c.periodic[i] {
			x = wrap(x, n)
		}
		if uint(x) >= uint(n) {
			return 0, fmt.Errorf("coordinate %d of dimension %d is out of range (0 to %d)", x, i, n-1)
		}
		rank = rank*n + x
	}
	return rank, nil
}

// wrap returns x modulo n, from 0 to n-1.
func wrap(x, n int) int {
	if x %= n; x < 0 {
		x += n
	}
	return x
}

// Shift returns the ranks at distance -step and +step from a rank, along a dimension: a shift by step receives from source
// and sends to dest. They are ProcNull beyond the edge of the grid. The dimension must exist.
func (c *Cart) Shift(rank, dim, step int) (source, dest int) {
	n, stride := c.dims[dim], 1
	for _, m := range c.dims[dim+1:] {
		stride *= m
	}
	x := rank / stride % n
	if c.periodic[dim] {
		step %= n // the sums below do not overflow
		return rank + (wrap(x-step, n)-x)*stride, rank + (wrap(x+step, n)-x)*stride
	}
	source, dest = ProcNull, ProcNull
	if step <= x && step >= x-(n-1) {
		source = rank - step*stride
	}
	if step >= -x && step <= n-1-x {
		dest = rank + step*stride
	}
	return source, dest
}

// Neighbors returns the neighbors of a rank in the order of neighborhood collectives: for each dimension the one at -1, then
// the one at +1. Beyond the edge of the grid they are ProcNull.
func (c *Cart) Neighbors(rank int) []int {
	all := make([]int, 0, 2*len(c.dims))
	for dim := range c.dims {
		before, after := c.Shift(rank, dim, 1)
		all = append(all, before, after)
	}
	return all
}

// Sub returns the grid of the dimensions that are kept. It also returns the number of the part to which a rank belongs, and the
// rank in it. keep has an element for each dimension.
func (c *Cart) Sub(rank int, keep []bool) (sub *Cart, part, newRank int) {
	sub = &Cart{size: 1}
	for i, x := range c.Coords(rank) {
		n := c.dims[i]
		if !keep[i] {
			part = part*n + x
			continue
		}
		sub.dims, sub.periodic = append(sub.dims, n), append(sub.periodic, c.periodic[i])
		sub.size *= n
		newRank = newRank*n + x
	}
	return sub, part, newRank
}

// Links returns the messages of an exchange between all neighbors.
func (c *Cart) Links() *Links {
	var edges []Edge
	for r := range c.size {
		for _, to := range c.Neighbors(r) {
			if to != ProcNull {
				edges = append(edges, Edge{r, to, 1})
			}
		}
	}
	return NewLinks(c.size, edges)
}
