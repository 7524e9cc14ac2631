package core

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/mpi/internal/topology"
	"github.com/ibrun/ibrun/perf"
)

// neighborCall is a neighborhood collective: the blocks that a rank sends to its destinations, and those that it receives from
// its sources.
type neighborCall struct {
	edges    coll.Edges
	dst, src []byte
	to, from coll.Layout
}

var errNeighborInPlace = errors.New("dst and src overlap, but no neighborhood collective is in place")

// newNeighborCall returns a neighborhood collective without blocks.
func (c *Comm) newNeighborCall(op string, dst, src []byte) (*neighborCall, error) {
	if err := c.checkUsable(op); err != nil {
		return nil, err
	}
	if c.topology == nil {
		return nil, c.newError(op, ErrTopology, errNoTopology)
	}
	if overlap(dst, src) {
		return nil, c.newError(op, ErrBuffer, errNeighborInPlace)
	}
	n, err := c.Neighbors()
	_, grid := c.topology.(*topology.Cart)
	edges := coll.Edges{Sources: n.Sources, Destinations: n.Destinations, Opposite: grid}
	return &neighborCall{edges: edges, dst: dst, src: src}, err
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
	return c.placed(op, b, slices.Repeat([]int{len(b) / elem / n}, n), nil, elem)
}

// What the blocks of neighborhood collectives are for, in errors.
const ofSources, ofDestinations = "sources", "destinations"

// equalOrListed is equalBlocks if there are no counts.
func (c *Comm) equalOrListed(op string, b []byte, counts, displs []int, n, elem int, what string) (coll.Layout, error) {
	if counts == nil {
		return c.equalBlocks(op, b, n, elem, what)
	}
	if _, err := c.sumOf(op, counts, n, what); err != nil {
		return coll.Layout{}, err
	}
	return c.placed(op, b, counts, displs, elem)
}

// neighborAllgatherCall checks the arguments of a NeighborAllgather, or of a NeighborAllgatherv if there are counts.
func (c *Comm) neighborAllgatherCall(op string, dst []byte, counts, displs []int, src []byte, elem int) (*neighborCall, error) {
	x, err := c.newNeighborCall(op, dst, src)
	if err != nil {
		return nil, err
	}
	if n := len(x.edges.Sources); counts == nil && len(dst) != n*len(src) {
		return nil, c.newError(op, ErrCount, fmt.Errorf("dst has %d elements; want %d from each of %d sources", len(dst)/elem,
			len(src)/elem, n))
	}
	out := len(x.edges.Destinations)
	x.from = coll.Layout{Counts: slices.Repeat([]int{len(src) / elem}, out), Displs: make([]int, out), Elem: elem}
	x.to, err = c.equalOrListed(op, dst, counts, displs, len(x.edges.Sources), elem, ofSources)
	return x, err
}

// blocks are counts and displacements of blocks; nil counts mean blocks of the same length.
type blocks struct{ counts, displs []int }

// neighborAlltoallCall checks the arguments of a NeighborAlltoall or NeighborAlltoallv.
func (c *Comm) neighborAlltoallCall(op string, dst []byte, to blocks, src []byte, from blocks, elem int) (*neighborCall, error) {
	x, err := c.newNeighborCall(op, dst, src)
	if err != nil {
		return nil, err
	}
	if x.to, err = c.equalOrListed(op, dst, to.counts, to.displs, len(x.edges.Sources), elem, ofSources); err != nil {
		return nil, err
	}
	x.from, err = c.equalOrListed(op, src, from.counts, from.displs, len(x.edges.Destinations), elem, ofDestinations)
	return x, err
}

// neighbor makes or starts a neighborhood collective of n bytes that args describes.
func (c *Comm) neighbor(m collMode, n int, k Elements, args func(op string) (*neighborCall, error)) error {
	var x *neighborCall
	run := func(p coll.Peer, _ *coll.Operation) error {
		return coll.Neighbor(p, &x.edges, x.dst, x.to, x.src, x.from)
	}
	if m.start != Blocking {
		return c.startCollective(m, n, func(*coll.Operation) (err error) {
			x, err = args(m.name())
			return err
		}, func() *collCall { return c.newCollCall(m.call, k, 0) }, run)
	}
	if err := c.beginIntracomm(m.call, n); err != nil {
		return err
	}
	defer c.endCollective()
	var err error
	x, err = args(m.name())
	if c.checks {
		err = c.compareCall(c.newCollCall(m.call, k, 0), err)
	}
	if err != nil {
		return err
	}
	return c.wrapError(m.name(), m.views.run(&c.coll, nil, run))
}

// NeighborAllgather sends src to all destinations, and collects the src of the sources in dst.
func (c *Comm) NeighborAllgather(start Start, dst, src []byte, k Elements) (r Request, err error) {
	err = c.neighborAllgather(modeOf(perf.IneighborAllgather, start, &r, nil), dst, nil, nil, src, k)
	return r, err
}

// NeighborAllgatherv is NeighborAllgather with counts and displacements of the blocks in dst.
func (c *Comm) NeighborAllgatherv(start Start, dst []byte, counts, displs []int, src []byte, k Elements) (r Request, err error) {
	err = c.neighborAllgather(modeOf(perf.IneighborAllgatherv, start, &r, nil), dst, notNil(counts), displs, src, k)
	return r, err
}

func (c *Comm) neighborAllgather(m collMode, dst []byte, counts, displs []int, src []byte, k Elements) error {
	return c.neighbor(m, len(src), k, func(op string) (*neighborCall, error) {
		return c.neighborAllgatherCall(op, dst, counts, displs, src, k.Size())
	})
}

// NeighborAlltoall sends a block of src to each destination, and receives one from each source into dst.
func (c *Comm) NeighborAlltoall(start Start, dst, src []byte, k Elements) (r Request, err error) {
	err = c.neighborAlltoall(modeOf(perf.IneighborAlltoall, start, &r, nil), dst, blocks{}, src, blocks{}, k)
	return r, err
}

// NeighborAlltoallv is NeighborAlltoall with counts and displacements of the blocks.
func (c *Comm) NeighborAlltoallv(start Start, dst []byte, rcounts, rdispls []int, src []byte, scounts, sdispls []int,
	k Elements,
) (r Request, err error) {
	m := modeOf(perf.IneighborAlltoallv, start, &r, nil)
	err = c.neighborAlltoall(m, dst, blocks{notNil(rcounts), rdispls}, src, blocks{notNil(scounts), sdispls}, k)
	return r, err
}

func (c *Comm) neighborAlltoall(m collMode, dst []byte, to blocks, src []byte, from blocks, k Elements) error {
	return c.neighbor(m, len(src), k, func(op string) (*neighborCall, error) {
		return c.neighborAlltoallCall(op, dst, to, src, from, k.Size())
	})
}

// notNil returns the counts of a call that has counts.
func notNil(counts []int) []int {
	if counts == nil {
		return []int{}
	}
	return counts
}
