package mpi

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ibrun/ibrun/perf"
)

// Edge is an edge of a graph of ranks: messages are to go from one to another. A weight says how much, as the program likes;
// it is not negative.
type Edge struct {
	From, To int
	Weight   int
}

// Neighbors are the edges at one rank: those that come from Sources, and those that go to Destinations. Weights are as many, or
// both nil for a graph without; where a list is empty its weights do not count.
type Neighbors struct {
	Sources, SourceWeights           []int
	Destinations, DestinationWeights []int
}

// weighted tells whether there are weights.
func (n *Neighbors) weighted() bool { return n.SourceWeights != nil || n.DestinationWeights != nil }

// clone is a copy with slices of its own.
func (n *Neighbors) clone() *Neighbors {
	return &Neighbors{slices.Clone(n.Sources), slices.Clone(n.SourceWeights),
		slices.Clone(n.Destinations), slices.Clone(n.DestinationWeights)}
}

// DistGraphCreateAdjacent makes a communicator of the same ranks with a graph, of which each rank gives the edges at itself; an
// edge between two ranks is given by both. The same edge may be there several times, and lead from a rank to itself. All ranks
// give weights, or none does. Hints are as for DupWithInfo. Ranks keep their numbers, as the standard allows. What is wrong at
// one rank is an error at all. It is collective. MPI-5.0 §8.5.4.
func (c *Comm) DistGraphCreateAdjacent(n Neighbors, info *Info) (*Comm, error) {
	op := perf.DistGraphCreateAdjacent.String()
	if err := c.checkIntracomm(op); err != nil {
		return nil, err
	}
	defer c.proc.recordCall(perf.DistGraphCreateAdjacent)()
	m := c.newAgreement(perf.DistGraphCreateAdjacent)
	if err := m.agreeEdges(c.checkNeighbors(op, &n), n.weighted()); err != nil {
		return nil, err
	}
	return m.newGraphComm(n.clone(), info)
}

// DistGraphCreate is DistGraphCreateAdjacent for edges of any ranks, each given once, by whatever rank. weighted tells whether
// their weights count; it is the same at all ranks. A rank finds its edges in the order of the ranks that gave them, and
// then as those gave them. MPI-5.0 §8.5.4.
func (c *Comm) DistGraphCreate(edges []Edge, weighted bool, info *Info) (*Comm, error) {
	op := perf.DistGraphCreate.String()
	if err := c.checkIntracomm(op); err != nil {
		return nil, err
	}
	defer c.proc.recordCall(perf.DistGraphCreate)()
	m := c.newAgreement(perf.DistGraphCreate)
	if err := m.agreeEdges(c.checkEdges(op, edges), weighted); err != nil {
		return nil, err
	}
	n, err := c.exchangeEdges(m.recordAs, edges, weighted)
	if err != nil {
		return nil, err
	}
	return m.newGraphComm(n, info)
}

// DistGraphNeighbors returns the edges at this rank, in slices that are the caller's. It is ErrTopology if the communicator has
// no graph; a duplicate has that of the original. It is local. MPI-5.0 §8.5.5.
func (c *Comm) DistGraphNeighbors() (Neighbors, error) {
	const op = "DistGraphNeighbors"
	if err := c.checkUsable(op); err != nil {
		return Neighbors{}, err
	}
	if c.graph == nil {
		return Neighbors{}, c.newError(op, ErrTopology, errors.New("the communicator has no graph"))
	}
	return *c.graph.clone(), nil
}

// checkIntracomm refuses what is no usable intracommunicator.
func (c *Comm) checkIntracomm(op string) error {
	if err := c.checkUsable(op); err != nil {
		return err
	}
	if c.localGroup != nil {
		return c.newError(op, ErrComm, errInter)
	}
	return nil
}

// checkNeighbors tells what is wrong with the edges at this rank.
func (c *Comm) checkNeighbors(op string, n *Neighbors) error {
	for _, side := range []struct{ ranks, weights []int }{{n.Sources, n.SourceWeights}, {n.Destinations, n.DestinationWeights}} {
		if n.weighted() && len(side.ranks) != len(side.weights) {
			return c.newError(op, ErrArg, fmt.Errorf("%d weights for %d neighbors", len(side.weights), len(side.ranks)))
		}
		for i, r := range side.ranks {
			if uint(r) >= uint(len(c.peers)) {
				return c.newError(op, ErrRank, fmt.Errorf("neighbor %d of %d ranks", r, len(c.peers)))
			}
			if n.weighted() && side.weights[i] < 0 {
				return c.newError(op, ErrArg, fmt.Errorf("weight %d", side.weights[i]))
			}
		}
	}
	return nil
}

// checkEdges tells what is wrong with edges that this rank gives.
func (c *Comm) checkEdges(op string, edges []Edge) error {
	for _, e := range edges {
		if n := uint(len(c.peers)); uint(e.From) >= n || uint(e.To) >= n {
			return c.newError(op, ErrRank, fmt.Errorf("an edge from %d to %d of %d ranks", e.From, e.To, n))
		}
		if e.Weight < 0 {
			return c.newError(op, ErrArg, fmt.Errorf("weight %d", e.Weight))
		}
	}
	return nil
}

// agreeEdges agrees that nothing is wrong anywhere, and that all ranks have weights or none has.
func (m *agreement) agreeEdges(failed error, weighted bool) error {
	const fine, with, without = 1, 2, 4
	bits := uint8(fine | without)
	if weighted {
		bits = fine | with
	}
	if failed != nil {
		bits &^= fine
	}
	all, err := m.andBits(bits)
	switch {
	case failed != nil:
		return m.comm.joinError(m.op, failed, err)
	case err != nil:
		return err
	case all&fine == 0:
		return m.comm.newError(m.op, ErrOther, errOtherRank)
	case all&(with|without) == 0:
		return m.comm.newError(m.op, ErrArg, errors.New("some ranks give weights and others do not"))
	}
	return nil
}

// newGraphComm makes the communicator.
func (m *agreement) newGraphComm(n *Neighbors, info *Info) (*Comm, error) {
	h := newHints().withInfo(info, m.comm.rails())
	d := m.comm.newChild(m.comm.peers, int(m.comm.rank))
	d.graph = n
	if err := m.activateDup(d, &h, nil); err != nil {
		return nil, err
	}
	return d, nil
}

// edgeInts is the number of ints that describe one edge to the rank at one end: whether this end is the source, the
// rank at the other end, and the weight.
const edgeInts = 3

// exchangeEdges gives every edge to the ranks at its ends, and returns those at this one.
func (c *Comm) exchangeEdges(call perf.Op, edges []Edge, weighted bool) (*Neighbors, error) {
	size := len(c.peers)
	parts := make([][]int, size)
	for _, e := range edges {
		parts[e.From] = append(parts[e.From], 1, e.To, e.Weight)
		parts[e.To] = append(parts[e.To], 0, e.From, e.Weight)
	}
	sent, come := make([]int, size), make([]int, size)
	for r, part := range parts {
		sent[r] = len(part)
	}
	if err := c.alltoall(call, bytesOf(come), bytesOf(sent), sizeOf[int]()); err != nil {
		return nil, err
	}
	total := 0
	for _, n := range come {
		total += n
	}
	in := make([]int, total)
	if err := c.alltoallv(call, bytesOf(in), come, nil, bytesOf(slices.Concat(parts...)), sent, nil, sizeOf[int]()); err != nil {
		return nil, err
	}
	n := &Neighbors{}
	if weighted {
		n.SourceWeights, n.DestinationWeights = []int{}, []int{}
	}
	for e := range slices.Chunk(in, edgeInts) {
		ranks, weights := &n.Sources, &n.SourceWeights
		if e[0] == 1 {
			ranks, weights = &n.Destinations, &n.DestinationWeights
		}
		*ranks = append(*ranks, e[1])
		if weighted {
			*weights = append(*weights, e[2])
		}
	}
	return n, nil
}
