package coll

// allreduceTwoLevel: the ranks of each node reduce their data to the leader of the node, the leaders combine that, and each
// sends the result to the ranks of its node. If the operation is not commutative, the ranks of each node must follow each other.
//
// Cost: that of a Reduce and a Bcast within a node, and of an Allreduce between nodes.
func allreduceTwoLevel(l *Levels, dst, src []byte, op *Operation) error {
	dst = dst[:len(src)]
	leader := l.lead(0)
	if !l.leads() {
		if err := l.reduce(nil, src, op, leader); err != nil {
			return err
		}
		return l.bcast(dst, leader)
	}
	if err := l.reduce(dst, src, op, leader); err != nil {
		return err
	}
	if err := Allreduce(l.leaders(), dst, dst, op); err != nil {
		return err
	}
	return l.bcast(dst, leader)
}
