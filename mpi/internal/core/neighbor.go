package core

import (
	"errors"
	"slices"

	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/perf"
)

var errNeighborInPlace = errors.New("dst and src overlap, but no neighborhood collective is in place")

// findEdges sets the edges of a neighborhood collective.
func (a *arguments) findEdges(x *Collective) error {
	n, err := a.topology.Neighbors()
	if err != nil {
		return err
	}
	if overlap(x.Dst, x.Src) {
		return WithClass(ErrBuffer, errNeighborInPlace)
	}
	// In a grid, what a rank sends to its lower neighbor arrives there as that of the upper one. If
	// both are the same rank, only this tells its two messages apart.
	x.edges = &coll.Edges{Sources: n.Sources, Destinations: n.Destinations, Opposite: a.topology.TopoTest() == Cart}
	return nil
}

// equalBlocks returns the positions of n blocks of the same length in b, one for each of what.
func equalBlocks(b []byte, _ coll.Layout, n, elem int, what string) (coll.Layout, error) {
	if n == 0 && len(b) != 0 || n != 0 && len(b)%(n*elem) != 0 {
		return coll.Layout{}, faultf(ErrCount, "%d elements cannot be divided evenly among %d %s", len(b)/elem, n, what)
	}
	if n == 0 {
		return coll.Layout{Elem: elem}, nil
	}
	return placed(b, coll.Layout{Counts: slices.Repeat([]int{len(b) / elem / n}, n)}, elem)
}

// neighborBlocks checks the arguments of a neighborhood collective, and sets the blocks.
func (a *arguments) neighborBlocks(x *Collective) error {
	err := a.findEdges(x)
	if err != nil {
		return err
	}
	elem, in, out := x.Elements.Size(), len(x.edges.Sources), len(x.edges.Destinations)
	place := listedBlocks
	switch x.Kind {
	case perf.NeighborAllgather:
		if len(x.Dst) != in*len(x.Src) {
			return faultf(ErrCount, "dst has %d elements; want %d from each of %d sources", len(x.Dst)/elem, len(x.Src)/elem, in)
		}
		place = equalBlocks
	case perf.NeighborAlltoall:
		place = equalBlocks
	}
	if x.To, err = place(x.Dst, x.To, in, elem, "sources"); err != nil {
		return err
	}
	if x.Kind == perf.NeighborAllgather || x.Kind == perf.NeighborAllgatherv { // all of Src to each destination
		x.From = coll.Layout{Counts: slices.Repeat([]int{len(x.Src) / elem}, out), Displs: make([]int, out), Elem: elem}
		return nil
	}
	x.From, err = place(x.Src, x.From, out, elem, "destinations")
	return err
}
