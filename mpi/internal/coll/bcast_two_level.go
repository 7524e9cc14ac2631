package coll

// bcastTwoLevel: the root sends to the leaders of the other nodes, and each leader to the ranks of its node.
//
// Cost: that of a Bcast between nodes, and of one within a node.
func bcastTwoLevel(l *Levels, buf []byte, root int) error {
	leader := l.lead(root)
	if l.leads() {
		if err := Bcast(l.leaders(), buf, int(l.node[root])); err != nil {
			return err
		}
	}
	return l.bcast(buf, leader)
}
