package core

import (
	"errors"
	"slices"

	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/mpi/internal/topology"
	"github.com/ibrun/ibrun/perf"
)

// Edge is a directed edge of a graph of ranks: rank From sends messages to rank To. Weight is an
// amount in units of the program's choice; it must not be negative.
type Edge struct {
	From, To int
	Weight   int
}

// Neighbors are the edges at one rank: incoming edges from Sources, and outgoing edges to
// Destinations. Each list of weights has the length of its list of ranks. Both lists of weights are
// nil for a graph without weights.
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
func DistGraphCreateAdjacent(c *Comm, n Neighbors, info *Info, reorder bool) (*Comm, error) {
	const call = perf.DistGraphCreateAdjacent
	a, err := begin(c, call, c.checkIntracomm(call.String()))
	if err != nil {
		return nil, err
	}
	defer a.end()
	if err := a.agreeEdges(n.check(len(c.peers)), n.weighted(), reorder); err != nil {
		return nil, err
	}
	return a.newGraphComm(n.clone(), info, reorder)
}

// DistGraphCreate is DistGraphCreateAdjacent for edges between any ranks.
func DistGraphCreate(c *Comm, edges []Edge, weighted bool, info *Info, reorder bool) (*Comm, error) {
	const call = perf.DistGraphCreate
	a, err := begin(c, call, c.checkIntracomm(call.String()))
	if err != nil {
		return nil, err
	}
	defer a.end()
	if err := a.agreeEdges(checkEdges(edges, len(c.peers)), weighted, reorder); err != nil {
		return nil, err
	}
	n, err := a.exchangeEdges(edges, weighted)
	if err != nil {
		return nil, err
	}
	return a.newGraphComm(n, info, reorder)
}

// distGraph returns the edges at this rank in a distributed graph.
func (t *Topology) distGraph() (*Neighbors, error) {
	return topologyAs[*Neighbors](t, "distributed graph")
}

// DistGraphNeighbors returns the edges at this rank, in slices that belong to the caller.
func (t *Topology) DistGraphNeighbors() (Neighbors, error) {
	n, err := t.distGraph()
	if err != nil {
		return Neighbors{}, err
	}
	return *n.clone(), nil
}

// DistGraphNeighborsCount returns the numbers of incoming and outgoing edges at this rank, and
// whether they have weights.
func (t *Topology) DistGraphNeighborsCount() (sources, destinations int, weighted bool, err error) {
	n, err := t.distGraph()
	if err != nil {
		return 0, 0, false, err
	}
	return len(n.Sources), len(n.Destinations), n.weighted(), nil
}

// checkIntracomm returns an error unless c is a usable intracommunicator.
func (c *Comm) checkIntracomm(op string) error {
	if err := c.checkUsable(op); err != nil {
		return err
	}
	if c.localGroup != nil {
		return c.newError(op, ErrComm, errInter)
	}
	return nil
}

// check returns an error if edges at a rank are invalid in a communicator of this size.
func (n *Neighbors) check(size int) error {
	for _, side := range []struct{ ranks, weights []int }{{n.Sources, n.SourceWeights}, {n.Destinations, n.DestinationWeights}} {
		if n.weighted() && len(side.ranks) != len(side.weights) {
			return faultf(ErrArg, "got %d weights for %d neighbors", len(side.weights), len(side.ranks))
		}
		for i, r := range side.ranks {
			if uint(r) >= uint(size) {
				return WithClass(ErrRank, rankError(r, size))
			}
			if n.weighted() && side.weights[i] < 0 {
				return faultf(ErrArg, "weight %d is negative", side.weights[i])
			}
		}
	}
	return nil
}

// checkEdges returns an error if edges are invalid in a communicator of this size.
func checkEdges(edges []Edge, size int) error {
	for _, e := range edges {
		if uint(e.From) >= uint(size) || uint(e.To) >= uint(size) {
			return faultf(ErrRank, "edge from %d to %d: the communicator has ranks 0 to %d", e.From, e.To, size-1)
		}
		if e.Weight < 0 {
			return faultf(ErrArg, "weight %d is negative", e.Weight)
		}
	}
	return nil
}

// agreeEdges agrees that no rank has failed, that either all ranks have weights or none has, and
// that all want to be reordered or none does.
func (a *agreement) agreeEdges(failed error, weighted, reorder bool) error {
	const fine, with, without, reordered, kept = 1, 2, 4, 8, 16
	bits := uint8(fine)
	// Two bits for each choice: a rank sets the one that it has made. If not all make the same one,
	// neither bit remains.
	for _, choice := range []struct {
		made     bool
		yes, not uint8
	}{{weighted, with, without}, {reorder, reordered, kept}} {
		if choice.made {
			bits |= choice.yes
		} else {
			bits |= choice.not
		}
	}
	if failed != nil {
		bits &^= fine
	}
	all, err := a.andBits(bits)
	err = a.success(a.comm.wrapError(a.op, failed), all&fine != 0, err)
	switch {
	case err != nil:
		return err
	case all&(with|without) == 0:
		return a.comm.newError(a.op, ErrArg, errors.New("some ranks give weights, but others do not"))
	case all&(reordered|kept) == 0:
		return a.comm.newError(a.op, ErrArg, errors.New("some ranks are to be reordered, but others are not"))
	}
	return nil
}

// newGraphComm creates the communicator with the graph. n are the edges at the rank of a.comm.
func (a *agreement) newGraphComm(n *Neighbors, info *Info, reorder bool) (*Comm, error) {
	h := newHints().withInfo(info, railsOf(a.comm))
	peers, rank := a.comm.peers, int(a.comm.rank)
	if reorder {
		order, err := a.reorderedGraph(n)
		if err == nil {
			n, err = a.moveNeighbors(n, order)
		}
		if err != nil {
			return nil, err
		}
		peers, rank = peersIn(peers, order), slices.Index(order, rank)
	}
	d := newChild(a.comm, peers, rank)
	d.topology = &Topology{rank, n}
	if err := a.activateDup(d, &h, nil); err != nil {
		return nil, err
	}
	return d, nil
}

// reorderedGraph finds the order of the ranks of a distributed graph. Rank 0 collects the outgoing
// edges of all ranks.
func (a *agreement) reorderedGraph(n *Neighbors) ([]int, error) {
	c := a.comm
	parts := make([][]int, len(c.peers))
	for i, to := range n.Destinations {
		weight := 1
		if n.weighted() {
			weight = n.DestinationWeights[i]
		}
		parts[0] = append(parts[0], int(c.rank), to, weight)
	}
	in, err := a.exchangeInts(parts)
	if err != nil {
		return nil, err
	}
	return a.reordered(len(c.peers), nil, func() *topology.Links {
		var edges []topology.Edge
		for e := range slices.Chunk(slices.Concat(in...), edgeInts) {
			edges = append(edges, topology.Edge{From: e[0], To: e[1], Weight: e[2]})
		}
		return topology.NewLinks(len(c.peers), edges)
	})
}

// moveNeighbors sends the edges at this rank to the process that gets the rank, and returns those
// at the new rank of this process.
func (a *agreement) moveNeighbors(n *Neighbors, order []int) (*Neighbors, error) {
	c := a.comm
	parts := make([][]int, len(c.peers))
	parts[order[c.rank]] = slices.Concat([]int{len(n.Sources), len(n.Destinations)},
		n.Sources, n.Destinations, n.SourceWeights, n.DestinationWeights)
	in, err := a.exchangeInts(parts)
	if err != nil {
		return nil, err
	}
	// The process that had this rank before has sent it. All others have sent nothing.
	x := in[slices.Index(order, int(c.rank))]
	sources, destinations := x[0], x[1]
	x = x[2:]
	take := func(k int) []int {
		list := slices.Clone(x[:k:k])
		x = x[k:]
		return list
	}
	moved := &Neighbors{Sources: take(sources), Destinations: take(destinations)}
	if n.weighted() { // as at every rank
		moved.SourceWeights, moved.DestinationWeights = take(sources), take(destinations)
	}
	return moved, nil
}

// edgeInts is the number of ints that describe one edge to the rank at one end: whether this end is
// the source, the rank at the other end, and the weight.
const edgeInts = 3

// exchangeEdges sends every edge to the ranks at its ends, and returns the edges at this rank.
func (a *agreement) exchangeEdges(edges []Edge, weighted bool) (*Neighbors, error) {
	parts := make([][]int, len(a.comm.peers))
	for _, e := range edges {
		parts[e.From] = append(parts[e.From], 1, e.To, e.Weight)
		parts[e.To] = append(parts[e.To], 0, e.From, e.Weight)
	}
	in, err := a.exchangeInts(parts)
	if err != nil {
		return nil, err
	}
	n := &Neighbors{}
	// A rank without edges has weights as well: nil would say that the graph has none.
	if weighted {
		n.SourceWeights, n.DestinationWeights = []int{}, []int{}
	}
	for e := range slices.Chunk(slices.Concat(in...), edgeInts) {
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

// exchangeInts sends parts[r] to rank r, and returns what each rank has sent to this one.
func (a *agreement) exchangeInts(parts [][]int) ([][]int, error) {
	// The ranks do not know how much they receive, so the lengths are exchanged before the data.
	sent, come := make([]int, len(parts)), make([]int, len(parts))
	for r, part := range parts {
		sent[r] = len(part)
	}
	x := &Collective{Kind: perf.Alltoall, as: a.recordAs, Dst: Bytes(come), Src: Bytes(sent), Elements: numbersOf[int]()}
	if err := a.comm.coll.Call(x); err != nil {
		return nil, err
	}
	total := 0
	for _, n := range come {
		total += n
	}
	in := make([]int, total)
	x = &Collective{Kind: perf.Alltoallv, as: a.recordAs, Dst: Bytes(in), To: coll.Layout{Counts: come},
		Src: Bytes(slices.Concat(parts...)), From: coll.Layout{Counts: sent}, Elements: numbersOf[int]()}
	if err := a.comm.coll.Call(x); err != nil {
		return nil, err
	}
	all := make([][]int, len(parts))
	for r, n := range come {
		all[r], in = in[:n:n], in[n:]
	}
	return all, nil
}
