package coll

// allreduceTwoLevelParts: the ranks of each node compute one part each of the sum over the node, ranks with the same number on
// their nodes combine their parts, and the ranks of each node collect all parts. So all ranks of a node send to other nodes, and
// each byte once. All nodes have the same number of ranks; if the operation is not commutative, they follow each other. All nodes
// must have the same parts: whether they use slots depends on the length and the number of ranks on a node only.
//
// Cost: that of a ReduceScatter and an Allgather within a node, and of an Allreduce of the k-th part between nodes with k ranks.
func allreduceTwoLevelParts(l *Levels, dst, src []byte, op *Operation) error {
	between := l.counterparts()
	dst = dst[:len(src)]
	parts := partition{len(src) / op.ElemSize, op.ElemSize, l.within.size}
	mine, first := parts.part(dst, l.within.rank), parts.start(l.within.rank)
	if l.Shm != nil {
		if err := l.Shm.reduceScatter(mine, src, first, op); err != nil {
			return err
		}
	} else if !shared(&l.within, ShmCall{Collective: OfReduceScatter, Bytes: len(src), dst: mine, src: src, op: op, first: first}) {
		return allreduceHalving(&l.within, dst, src, op, between)
	}
	if err := Allreduce(between, mine, mine, op); err != nil {
		return err
	}
	if l.Shm != nil {
		return l.Shm.allgatherParts(dst, parts)
	}
	longest := len(parts.part(dst, 0))
	if !shared(&l.within, ShmCall{Collective: OfAllgather, Bytes: longest, dst: dst, src: dst, blocks: parts}) {
		panic("coll: the parts do not fit into slots, and all data did")
	}
	return nil
}
