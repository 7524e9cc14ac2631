package coll

// Nodes is how the ranks of a communicator are distributed over nodes. It is not changed after NewNodes.
type Nodes struct {
	ranks [][]int32 // of each node, in ascending order; the nodes are in the order of their first ranks
	node  []int32   // by rank
	index []int32   // of each rank among those of its node
	first []int32   // by node, the number of ranks on the nodes before it
	// even says that all nodes have the same number of ranks, consecutive that the ranks of each node follow each other.
	even, consecutive bool
}

// NewNodes returns how ranks are distributed. of has, by rank, a number of the node, and is the same at all ranks. NewNodes
// returns nil if there are no two levels: one node, or no node with several ranks.
func NewNodes(of []int32) *Nodes {
	n := &Nodes{node: make([]int32, len(of)), index: make([]int32, len(of)), even: true, consecutive: true}
	numbers := map[int32]int32{}
	for r, x := range of {
		k, known := numbers[x]
		if !known {
			k = int32(len(numbers))
			numbers[x] = k
			n.ranks = append(n.ranks, nil)
		}
		n.node[r], n.index[r] = k, int32(len(n.ranks[k]))
		n.ranks[k] = append(n.ranks[k], int32(r))
		n.consecutive = n.consecutive && (!known || of[r-1] == x)
	}
	if len(n.ranks) == 1 || len(n.ranks) == len(of) {
		return nil
	}
	before := 0
	for _, ranks := range n.ranks {
		n.even = n.even && len(ranks) == len(n.ranks[0])
		n.first = append(n.first, int32(before))
		before += len(ranks)
	}
	return n
}

// Beside returns the ranks of a rank's node, in ascending order. The result must not be changed.
func (n *Nodes) Beside(rank int) []int32 { return n.ranks[n.node[rank]] }

// leader returns the rank that communicates with other nodes for a node: root on its own node, and the first rank elsewhere.
func (n *Nodes) leader(node, root int) int {
	if int(n.node[root]) == node {
		return root
	}
	return int(n.ranks[node][0])
}

// Levels is what algorithms on two levels need: the nodes, and the memory that the ranks of a node share. It belongs to one Peer,
// and so do the two Peers that it contains: of the ranks of this node, and of one rank of each node.
type Levels struct {
	*Nodes
	// Shm is the memory that the ranks of this rank's node share, in which a rank has its number on the node. It is nil if this
	// rank is alone on its node, if not all ranks share memory with those of their nodes, and in a Plan.
	Shm *Shm
	// Memory is NodeMemory or OversubscribedNodes if all ranks share memory with those of their nodes, and 0 otherwise. It is the
	// same at all ranks.
	Memory Family

	within, between subset
	root            int // of the leaders
}

// Family returns the algorithms that ranks on these nodes can use if they share no memory; n may be nil.
func (n *Nodes) Family() Family {
	switch {
	case n == nil:
		return Messages
	case n.even:
		return EvenLevels
	}
	return TwoLevels
}

// family returns the algorithms that can be used; l may be nil.
func (l *Levels) family() Family {
	if l == nil {
		return Messages
	}
	return l.Family() | l.Memory
}

// Init sets the nodes, for the collectives of a Peer; nil: there are no levels.
func (l *Levels) Init(p Peer, n *Nodes) {
	*l = Levels{Nodes: n}
	if n == nil {
		return
	}
	node, index := int(n.node[p.Rank()]), int(n.index[p.Rank()])
	l.within = subset{Peer: p, nodes: n, rank: index, size: len(n.ranks[node]), node: node}
	l.between = subset{Peer: p, nodes: n, rank: node, size: len(n.ranks), node: -1}
}

// lead chooses the leaders for a collective with a root. It returns the leader of this rank's node, as a rank of the node.
func (l *Levels) lead(root int) (leader int) {
	l.root = root
	l.between.root = root
	return int(l.index[l.leader(l.between.rank, root)])
}

// leads reports whether this rank is the leader of its node.
func (l *Levels) leads() bool { return l.leader(l.between.rank, l.root) == l.Rank() }

// Rank returns this rank.
func (l *Levels) Rank() int { return l.within.Peer.Rank() }

// leaders returns the Peer of the leaders, of which this rank is one. The leader of node i is rank i there.
func (l *Levels) leaders() Peer { return &l.between }

// counterparts returns the Peer of the ranks that have the same number on their node as this rank.
func (l *Levels) counterparts() Peer {
	l.between.root, l.between.index = -1, l.within.rank
	return &l.between
}

// bcast is Bcast among the ranks of this node.
func (l *Levels) bcast(buf []byte, root int) error {
	if l.Shm != nil {
		return l.Shm.Bcast(buf, root)
	}
	return Bcast(&l.within, buf, root)
}

// reduce is Reduce among the ranks of this node.
func (l *Levels) reduce(dst, src []byte, op *Operation, root int) error {
	switch {
	case l.Shm != nil && !l.Shm.Oversubscribed && l.Shm.dividesWork(len(src)):
		// All ranks reduce at the same time, and not the root alone.
		if dst == nil {
			dst = l.within.Scratch(len(src))
		}
		return l.Shm.Allreduce(dst, src, op)
	case l.Shm != nil:
		return l.Shm.Reduce(dst, src, op, root)
	}
	return Reduce(&l.within, dst, src, op, root)
}

// gather is Gather among the ranks of this node.
func (l *Levels) gather(dst, src []byte, root int) error {
	if l.Shm != nil {
		return l.Shm.Gather(dst, src, root)
	}
	return Gather(&l.within, dst, src, root)
}

// subset is a Peer of some ranks of another Peer: those of a node, or one of each node.
type subset struct {
	Peer
	nodes      *Nodes
	rank, size int
	node       int // its ranks; negative: one rank of each node
	root       int // of one rank of each node: the leaders for this root; negative: those with the number index on their node
	index      int
}

// of returns the number of a rank in the Peer of all.
func (s *subset) of(i int) int {
	switch {
	case s.node >= 0:
		return int(s.nodes.ranks[s.node][i])
	case s.root >= 0:
		return s.nodes.leader(i, s.root)
	}
	return int(s.nodes.ranks[i][s.index])
}

// Rank returns the number of this rank in the subset.
func (s *subset) Rank() int { return s.rank }

// Size returns the number of ranks in the subset.
func (s *subset) Size() int { return s.size }

// Levels returns nil.
func (s *subset) Levels() *Levels { return nil }

// Send sends.
func (s *subset) Send(dst int, b []byte) error { return s.Peer.Send(s.of(dst), b) }

// Recv receives.
func (s *subset) Recv(src int, b []byte) error { return s.Peer.Recv(s.of(src), b) }

// Sendrecv sends and receives.
func (s *subset) Sendrecv(dst int, b []byte, src int, r []byte) error {
	return s.Peer.Sendrecv(s.of(dst), b, s.of(src), r)
}

// Isend begins to send.
func (s *subset) Isend(dst int, b []byte) (Handle, error) { return s.Peer.Isend(s.of(dst), b) }

// Irecv begins to receive.
func (s *subset) Irecv(src int, b []byte) (Handle, error) { return s.Peer.Irecv(s.of(src), b) }
