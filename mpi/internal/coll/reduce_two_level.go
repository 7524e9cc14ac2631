package coll

// reduceTwoLevel: the ranks of each node reduce their data to the leader of the node, and the leaders reduce that to the root.
// If the operation is not commutative, the ranks of each node must follow each other.
//
// Cost: that of a Reduce within a node, and of one between nodes.
func reduceTwoLevel(p Peer, l *Levels, dst, src []byte, op *Operation, root int) error {
	leader := l.lead(root)
	if !l.leads() {
		return l.reduce(nil, src, op, leader)
	}
	sum := dst
	if p.Rank() != root {
		sum = p.Scratch(len(src))
	}
	sum = sum[:len(src)]
	if err := l.reduce(sum, src, op, leader); err != nil {
		return err
	}
	return Reduce(l.leaders(), dst, sum, op, int(l.node[root]))
}
