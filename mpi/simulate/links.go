package simulate

import "fmt"

// Links are the links of a cluster. They know from when on each of them is free. Times are in ns since the start of the
// simulation. The calls of Transfer must be in the order of their times.
type Links struct {
	model   Model
	nodeOf  []int     // by rank
	near    []float64 // by rank, when its link to the other ranks of its node is free
	network []node    // by node
}

// node has the times from which on the link of a node is free in each direction.
type node struct{ out, in float64 }

// NewLinks returns the links between ranks, of which nodeOf gives the numbers of the nodes, from 0. The zero Model means
// DefaultModel. It fails if the model is invalid.
func NewLinks(m Model, nodeOf []int) (*Links, error) {
	if m == (Model{}) {
		m = DefaultModel
	}
	if err := m.check(); err != nil {
		return nil, err
	}
	nodes := 0
	for rank, n := range nodeOf {
		if n < 0 || n >= len(nodeOf) {
			return nil, fmt.Errorf("simulate: rank %d is on node %d, of at most %d", rank, n, len(nodeOf))
		}
		nodes = max(nodes, n+1)
	}
	return &Links{m, nodeOf, make([]float64, len(nodeOf)), make([]node, nodes)}, nil
}

// Model returns the model.
func (x *Links) Model() *Model { return &x.model }

// Between returns the description of messages between two ranks.
func (x *Links) Between(from, to int) *Link {
	if x.nodeOf[from] == x.nodeOf[to] {
		return &x.model.Node
	}
	return &x.model.Network
}

// Transfer moves n bytes from time t on, as soon as the links are free. It returns when the last byte has left, and when it has
// arrived. The messages between two ranks arrive in the order of the calls.
func (x *Links) Transfer(from, to, n int, t float64) (left, arrived float64) {
	l := x.Between(from, to)
	took, latency := nanoseconds(n, l.Bandwidth), float64(l.Latency)
	if l == &x.model.Node {
		own := &x.near[from]
		*own = max(*own, t) + took
		return *own, *own + latency
	}
	out, in := &x.network[x.nodeOf[from]].out, &x.network[x.nodeOf[to]].in
	start := max(*out, t)
	*out = start + took
	*in = max(*in, start+latency) + took
	return *out, *in
}
