package core

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/mpi/internal/topology"
	"github.com/ibrun/ibrun/perf"
)

var errNeighborInPlace = errors.New("dst and src overlap, but no neighborhood collective is in place")

// findEdges sets the edges of a neighborhood collective.
func (c *Comm) findEdges(x *Collective, op string) error {
	if err := c.checkUsable(op); err != nil {
		return err
	}
	if c.topology == nil {
		return c.newError(op, ErrTopology, errNoTopology)
	}
	if overlap(x.Dst, x.Src) {
		return c.newError(op, ErrBuffer, errNeighborInPlace)
	}
	n, err := c.Neighbors()
	_, grid := c.topology.(*topology.Cart)
	x.edges = &coll.Edges{Sources: n.Sources, Destinations: n.Destinations, Opposite: grid}
	return err
}

// equalBlocks returns the positions of n blocks of the same length in b.
func (c *Comm) equalBlocks(op string, b []byte, n, elem int, what string) (coll.Layout, error) {
	if n == 0 && len(b) != 0 || n != 0 && len(b)%(n*elem) != 0 {
		return coll.Layout{}, c.newError(op, ErrCount,
			fmt.Errorf("%d elements cannot be divided evenly among %d %s", len(b)/elem, n, what))
	}
	if n == 0 {
		return coll.Layout{Elem: elem}, nil
	}
	return c.placed(op, b, coll.Layout{Counts: slices.Repeat([]int{len(b) / elem / n}, n)}, elem)
}

// What the blocks of neighborhood collectives are for, in errors.
const ofSources, ofDestinations = "sources", "destinations"

// listedBlocks returns the positions of n blocks in b, whose counts the call lists.
func (c *Comm) listedBlocks(op string, b []byte, parts coll.Layout, n, elem int, what string) (coll.Layout, error) {
	if _, err := c.sumOf(op, parts.Counts, n, what); err != nil {
		return coll.Layout{}, err
	}
	return c.placed(op, b, parts, elem)
}

// neighborAllgather checks the arguments of a NeighborAllgather or NeighborAllgatherv, and sets the blocks.
func (c *Comm) neighborAllgather(x *Collective, op string) error {
	err := c.findEdges(x, op)
	if err != nil {
		return err
	}
	elem, in, out := x.Elements.Size(), len(x.edges.Sources), len(x.edges.Destinations)
	if x.Kind == perf.NeighborAllgather && len(x.Dst) != in*len(x.Src) {
		return c.newError(op, ErrCount, fmt.Errorf("dst has %d elements; want %d from each of %d sources", len(x.Dst)/elem,
			len(x.Src)/elem, in))
	}
	x.From = coll.Layout{Counts: slices.Repeat([]int{len(x.Src) / elem}, out), Displs: make([]int, out), Elem: elem}
	if x.Kind == perf.NeighborAllgather {
		x.To, err = c.equalBlocks(op, x.Dst, in, elem, ofSources)
	} else {
		x.To, err = c.listedBlocks(op, x.Dst, x.To, in, elem, ofSources)
	}
	return err
}

// neighborAlltoall checks the arguments of a NeighborAlltoall, NeighborAlltoallv or NeighborAlltoallw, and sets the blocks.
func (c *Comm) neighborAlltoall(x *Collective, op string) error {
	err := c.findEdges(x, op)
	if err != nil {
		return err
	}
	elem, in, out := x.Elements.Size(), len(x.edges.Sources), len(x.edges.Destinations)
	if x.Kind == perf.NeighborAlltoall {
		if x.To, err = c.equalBlocks(op, x.Dst, in, elem, ofSources); err == nil {
			x.From, err = c.equalBlocks(op, x.Src, out, elem, ofDestinations)
		}
		return err
	}
	if x.To, err = c.listedBlocks(op, x.Dst, x.To, in, elem, ofSources); err == nil {
		x.From, err = c.listedBlocks(op, x.Src, x.From, out, elem, ofDestinations)
	}
	return err
}
