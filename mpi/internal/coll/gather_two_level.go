package coll

// gatherTwoLevel: the leader of each node gathers the blocks of its node, and sends them to the root in one message.
//
// Cost: that of a Gather within a node, and a + k * m*b at the root for each other node with k ranks. If the ranks of nodes do
// not follow each other, the root copies all blocks once more.
func gatherTwoLevel(p Peer, l *Levels, dst, src []byte, root, n int) error {
	leader := l.lead(root)
	switch {
	case !l.leads():
		return l.gather(nil, src, leader)
	case p.Rank() != root:
		all := p.Scratch(l.within.size * n)
		if err := l.gather(all, src, leader); err != nil {
			return err
		}
		return l.leaders().Send(int(l.node[root]), all)
	}
	all := l.inOrder(p, dst, n)
	hs := handles(p, len(l.ranks))
	for node := range l.ranks {
		if node == l.between.rank {
			continue
		}
		h, err := l.leaders().Irecv(node, l.blocksOf(all, node, n))
		if err != nil {
			return abandon(p, hs, err)
		}
		hs = append(hs, h)
	}
	mine := l.blocksOf(all, l.between.rank, n)
	if err := l.gather(mine, l.ownBlock(p, mine, dst, src, n), leader); err != nil {
		return abandon(p, hs, err)
	}
	if err := p.Waitall(hs); err != nil {
		return err
	}
	l.toRankOrder(p, dst, all, n)
	return nil
}

// inOrder returns room for a block of each rank, node by node: dst if that is also the order of ranks.
func (l *Levels) inOrder(p Peer, dst []byte, n int) []byte {
	if l.consecutive {
		return dst
	}
	return p.Scratch(n * p.Size())
}

// blocksOf returns the blocks of a node's ranks in the result of inOrder.
func (l *Levels) blocksOf(all []byte, node, n int) []byte {
	return blockAt(all[int(l.first[node])*n:], 0, len(l.ranks[node])*n)
}

// ownBlock returns the block of this rank, for a gather of the blocks of its node into mine. It has the beginning of mine if the
// block is in its place there.
func (l *Levels) ownBlock(p Peer, mine, dst, src []byte, n int) []byte {
	switch {
	case !inPlace(dst, src):
		return src
	case l.consecutive:
		return mine[:n]
	}
	return blockAt(dst, p.Rank(), n)
}

// toRankOrder copies the blocks in the result of inOrder to dst, unless they are there.
func (l *Levels) toRankOrder(p Peer, dst, all []byte, n int) {
	if l.consecutive {
		return
	}
	for node, ranks := range l.ranks {
		for i, r := range ranks {
			p.Copy(blockAt(dst, int(r), n), blockAt(all, int(l.first[node])+i, n))
		}
	}
}
