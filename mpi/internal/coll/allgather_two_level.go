package coll

// allgatherTwoLevel: the leader of each node gathers the blocks of its node, the leaders exchange them, and each sends all
// blocks to the ranks of its node.
//
// Cost: that of a Gather within a node, of an Allgather between nodes, and of a Bcast of all blocks within a node. If the ranks
// of nodes do not follow each other, each leader copies all blocks once more.
func allgatherTwoLevel(p Peer, l *Levels, dst, src []byte, n int) error {
	leader := l.lead(0)
	dst = dst[:n*p.Size()]
	if !l.leads() {
		if inPlace(dst, src) {
			src = blockAt(dst, p.Rank(), n)
		}
		if err := l.gather(nil, src, leader); err != nil {
			return err
		}
		return l.bcast(dst, leader)
	}
	all := l.inOrder(p, dst, n)
	mine := l.blocksOf(all, l.between.rank, n)
	if err := l.gather(mine, l.ownBlock(p, mine, dst, src, n), leader); err != nil {
		return err
	}
	if err := l.exchangeBlocks(all, n); err != nil {
		return err
	}
	l.toRankOrder(p, dst, all, n)
	return l.bcast(dst, leader)
}

// exchangeBlocks is an Allgather of the blocks of the nodes among the leaders.
func (l *Levels) exchangeBlocks(all []byte, n int) error {
	if l.even {
		return Allgather(l.leaders(), all, all[:l.within.size*n])
	}
	return passAround(l.leaders(), l.between.rank, func(node int) []byte { return l.blocksOf(all, node, n) })
}
