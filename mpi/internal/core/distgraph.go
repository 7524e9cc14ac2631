package core

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ibrun/ibrun/perf"
)

// Edge is a directed edge of a graph of ranks: rank From sends messages to rank To. Weight is an amount in units of
// the program's choice; it must not be negative.
type Edge struct {
	From, To int
	Weight   int
}

// Neighbors are the edges at one rank: incoming edges from Sources, and outgoing edges to Destinations. Each list of
// weights has the length of its list of ranks. Both lists of weights are nil for a graph without weights.
type Neighbors struct {
	Sources, SourceWeights           []int
	Destinations, DestinationWeights []int
}

// weighted reports whether the edges have weights.
func (n *Neighbors) weighted() bool { return n.SourceWeights != nil || n.DestinationWeights != nil }

// clone returns a copy with its own slices.
func (n *Neighbors) clone() *Neighbors {
	return &Neighbors{slices.Clone(n.Sources), slices.Clone(n.SourceWeights),
		slices.Clone(n.Destinations), slices.Clone(n.DestinationWeights)}
}

// DistGraphCreateAdjacent creates a communicator of the same ranks with a graph.
func (c *Comm) DistGraphCreateAdjacent(n Neighbors, info *Info) (*Comm, error) {
	op := perf.DistGraphCreateAdjacent.String()
	if err := c.checkIntracomm(op); err != nil {
		return nil, err
	}
	defer c.proc.recordCall(perf.DistGraphCreateAdjacent)()
	if err := c.checkCall(perf.DistGraphCreateAdjacent); err != nil {
		return nil, err
	}
	m := c.newAgreement(perf.DistGraphCreateAdjacent)
	if err := m.agreeEdges(c.checkNeighbors(op, &n), n.weighted()); err != nil {
		return nil, err
	}
	return m.newGraphComm(n.clone(), info)
}

// DistGraphCreate is DistGraphCreateAdjacent for edges between any ranks.
func (c *Comm) DistGraphCreate(edges []Edge, weighted bool, info *Info) (*Comm, error) {
	op := perf.DistGraphCreate.String()
	if err := c.checkIntracomm(op); err != nil {
		return nil, err
	}
	defer c.proc.recordCall(perf.DistGraphCreate)()
	if err := c.checkCall(perf.DistGraphCreate); err != nil {
		return nil, err
	}
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

// DistGraphNeighbors returns the edges at this rank, in slices that belong to the caller.
func (c *Comm) DistGraphNeighbors() (Neighbors, error) {
	const op = "DistGraphNeighbors"
	if err := c.CheckUsable(op); err != nil {
		return Neighbors{}, err
	}
	if c.graph == nil {
		return Neighbors{}, c.newError(op, ErrTopology, errors.New("the communicator has no graph"))
	}
	return *c.graph.clone(), nil
}

// checkIntracomm returns an error unless c is a usable intracommunicator.
func (c *Comm) checkIntracomm(op string) error {
	if err := c.CheckUsable(op); err != nil {
		return err
	}
	if c.localGroup != nil {
		return c.newError(op, ErrComm, errInter)
	}
	return nil
}

// checkNeighbors returns an error if the edges at this rank are invalid.
func (c *Comm) checkNeighbors(op string, n *Neighbors) error {
	for _, side := range []struct{ ranks, weights []int }{{n.Sources, n.SourceWeights}, {n.Destinations, n.DestinationWeights}} {
		if n.weighted() && len(side.ranks) != len(side.weights) {
			return c.newError(op, ErrArg, fmt.Errorf("got %d weights for %d neighbors", len(side.weights), len(side.ranks)))
		}
		for i, r := range side.ranks {
			if uint(r) >= uint(len(c.peers)) {
				return c.newError(op, ErrRank, rankError(r, len(c.peers)))
			}
			if n.weighted() && side.weights[i] < 0 {
				return c.newError(op, ErrArg, fmt.Errorf("weight %d is negative", side.weights[i]))
			}
		}
	}
	return nil
}

// checkEdges returns an error if edges that this rank gives are invalid.
func (c *Comm) checkEdges(op string, edges []Edge) error {
	for _, e := range edges {
		if n := uint(len(c.peers)); uint(e.From) >= n || uint(e.To) >= n {
			return c.newError(op, ErrRank, fmt.Errorf("edge from %d to %d: the communicator has ranks 0 to %d", e.From, e.To, n-1))
		}
		if e.Weight < 0 {
			return c.newError(op, ErrArg, fmt.Errorf("weight %d is negative", e.Weight))
		}
	}
	return nil
}

// agreeEdges agrees that no rank has failed, and that either all ranks have weights or none has.
func (a *agreement) agreeEdges(failed error, weighted bool) error {
	const fine, with, without = 1, 2, 4
	bits := uint8(fine | without)
	if weighted {
		bits = fine | with
	}
	if failed != nil {
		bits &^= fine
	}
	all, err := a.andBits(bits)
	switch {
	case failed != nil:
		return a.comm.joinError(a.op, failed, err)
	case err != nil:
		return err
	case all&fine == 0:
		return a.comm.newError(a.op, ErrOther, errOtherRank)
	case all&(with|without) == 0:
		return a.comm.newError(a.op, ErrArg, errors.New("some ranks give weights, but others do not"))
	}
	return nil
}

// newGraphComm creates the communicator with the graph.
func (a *agreement) newGraphComm(n *Neighbors, info *Info) (*Comm, error) {
	h := newHints().withInfo(info, a.comm.rails())
	d := a.comm.newChild(a.comm.peers, int(a.comm.rank))
	d.graph = n
	if err := a.activateDup(d, &h, nil); err != nil {
		return nil, err
	}
	return d, nil
}

// edgeInts is the number of ints that describe one edge to the rank at one end: whether this end is the source, the
// rank at the other end, and the weight.
const edgeInts = 3

// exchangeEdges sends every edge to the ranks at its ends, and returns the edges at this rank.
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
	if err := c.alltoall(call, Bytes(come), Bytes(sent), KindOf[int]()); err != nil {
		return nil, err
	}
	total := 0
	for _, n := range come {
		total += n
	}
	in := make([]int, total)
	if err := c.alltoallv(call, Bytes(in), come, nil, Bytes(slices.Concat(parts...)), sent, nil, KindOf[int]()); err != nil {
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
