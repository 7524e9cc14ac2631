package core

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/mpi/internal/topology"
	"github.com/ibrun/ibrun/perf"
)

// Kinds of virtual topologies, with the values of the MPI-5.0 ABI. Undefined is not a topology.
const (
	// Cart is a Cartesian topology.
	Cart = 211
	// Graph is a graph that every rank has whole.
	Graph = 212
	// DistGraph is a distributed graph.
	DistGraph = 213
)

var errNoTopology = errors.New("the communicator has no topology")

// Topology is a virtual topology as one rank sees it. nil is none. It never changes, and the
// duplicates of a communicator share it. Its calls know no communicator: Comm.CallResult makes the
// errors of calls from theirs.
type Topology struct {
	rank int // of this process
	of   any // a *topology.Cart, a topology.Graph, or the *Neighbors of this rank in a distributed graph
}

// Topology returns the topology of the communicator; nil if it has none, or cannot be used.
func (c *Comm) Topology() *Topology {
	if c == nil || c.state.Load() != commReady {
		return nil
	}
	return c.topology
}

// topologyAs returns a topology of one kind, or the error that the communicator has none.
func topologyAs[T any](t *Topology, kind string) (of T, err error) {
	if t != nil {
		if of, ok := t.of.(T); ok {
			return of, nil
		}
	}
	return of, faultf(ErrTopology, "the communicator has no %s", kind)
}

// TopoTest returns the kind of topology: Cart, Graph, DistGraph or Undefined.
func (t *Topology) TopoTest() int {
	if t == nil {
		return Undefined
	}
	switch t.of.(type) {
	case *topology.Cart:
		return Cart
	case topology.Graph:
		return Graph
	}
	return DistGraph
}

// Neighbors returns the neighbors of this rank in the order of neighborhood collectives, in slices
// that belong to the caller.
func (t *Topology) Neighbors() (Neighbors, error) {
	if t == nil {
		return Neighbors{}, WithClass(ErrTopology, errNoTopology)
	}
	both := func(ranks []int) (Neighbors, error) {
		return Neighbors{Sources: ranks, Destinations: slices.Clone(ranks)}, nil
	}
	switch of := t.of.(type) {
	case *topology.Cart:
		return both(of.Neighbors(t.rank))
	case topology.Graph:
		return both(slices.Clone(of[t.rank]))
	}
	return t.DistGraphNeighbors()
}

// agreeSame agrees that no rank has failed, and that all ranks give the same arguments.
func (a *agreement) agreeSame(failed error, args ...any) error {
	// All bits of the sum and of its complement remain set only if all ranks have the same sum.
	sum := sha256.Sum256(fmt.Append(nil, args...))
	var mine, all [1 + 2*len(sum)]byte
	if failed == nil {
		mine[0] = 1
	}
	for i, b := range sum {
		mine[1+i], mine[1+len(sum)+i] = b, ^b
	}
	err := a.allreduce(all[:], mine[:], datatype.Uint8, Band)
	if err := a.success(failed, all[0] != 0, err); err != nil {
		return err
	}
	// A bit is missing in both where the sums of two ranks differ.
	for i := range sum {
		if all[1+i]|all[1+len(sum)+i] != 0xff {
			return a.comm.newError(a.op, ErrArg, errors.New("the ranks give different arguments"))
		}
	}
	return nil
}

// newTopologyComm creates the communicator of the processes that have a rank in the topology: rank
// r is the process with rank order[r] in a.comm. It returns nil for processes without a rank.
func (a *agreement) newTopologyComm(t any, order []int) (*Comm, error) {
	c := a.comm
	rank := slices.Index(order, int(c.rank))
	ctx, err := a.allocContextID(rank >= 0)
	if err != nil || rank < 0 {
		return nil, err
	}
	d := newChild(c, peersIn(c.peers, order), rank)
	d.topology = &Topology{rank, t}
	d.activate(ctx)
	return d, nil
}

// peersIn returns the processes with the ranks order[0], order[1] and so on.
func peersIn(peers []int32, order []int) []int32 {
	ordered := make([]int32, len(order))
	for r, old := range order {
		ordered[r] = peers[old]
	}
	return ordered
}

// reordered finds the order of n ranks in which those with links between them are close to each
// other. links returns the links; it is called at rank 0 only, which finds the order for all. grid
// is nil unless they are those of a grid.
func (a *agreement) reordered(n int, grid *topology.Cart, links func() *topology.Links) ([]int, error) {
	c := a.comm
	// A rank whose place is not known must not leave the others waiting, so they agree before they
	// exchange places.
	mine, failed := c.proc.machine.place()
	if err := a.agreeSuccess(c.wrapError(a.op, failed)); err != nil {
		return nil, err
	}
	places := make([]topology.Place, len(c.peers))
	x := &Collective{Kind: perf.Allgather, as: a.recordAs, Dst: Bytes(places), Src: Bytes(mine[:]), Elements: numbersOf[int32]()}
	if err := c.coll.Call(x); err != nil {
		return nil, err
	}
	order := make([]int, n)
	// One rank computes for all: it takes long in large graphs, and only rank 0 has all links of a
	// distributed one.
	if c.rank == 0 {
		copy(order, topology.Map(links(), grid, places[:n]))
	}
	return order, a.bcast(Bytes(order), 0)
}

// mapRank returns the rank of this process in the order that reordering by nodes finds. It is
// local, so it knows of each process only its node.
func mapRank(c *Comm, n int, grid *topology.Cart, links *topology.Links) (int, error) {
	nodes, err := c.proc.boot.Nodes()
	if err != nil {
		return Undefined, fmt.Errorf("get the nodes of the processes from the launcher: %w", err)
	}
	places := make([]topology.Place, n)
	for r := range places {
		places[r] = topology.UnknownPlace(nodes[c.peers[r]])
	}
	if r := slices.Index(topology.Map(links, grid, places), int(c.rank)); r >= 0 {
		return r, nil
	}
	return Undefined, nil
}
