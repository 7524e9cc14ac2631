package coll

// allgatherRing: in each step a rank sends the block that it received last to the next rank.
//
// Cost: (n-1) * (a + m*b), for any n; only neighbours communicate.
func allgatherRing(p Peer, dst, src []byte, n int) error {
	rank, size := p.Rank(), p.Size()
	if size == 2 && !inPlace(dst, src) { // the other rank reads src, which no copy has put into another cache
		p.Copy(blockAt(dst, rank, n), src)
		return p.Sendrecv(1-rank, src, 1-rank, blockAt(dst, 1-rank, n))
	}
	if !inPlace(dst, src) {
		p.Copy(blockAt(dst, rank, n), src)
	}
	return passAround(p, rank, func(i int) []byte { return blockAt(dst, i, n) })
}

// allgathervRing is allgatherRing for blocks of different lengths; this rank's own is in place.
//
// Cost: (n-1) * (a + M*b), where M is the longest block.
func allgathervRing(p Peer, dst []byte, at *Layout) error {
	return passAround(p, p.Rank(), func(i int) []byte { return at.block(dst, i) })
}

// passAround passes blocks around the ring of all ranks until each rank has all. At first this rank has the block first, the next
// rank the next block, modulo the number of ranks.
func passAround(p Peer, first int, block func(i int) []byte) error {
	rank, n := p.Rank(), p.Size()
	right, left := mod(rank+1, n), mod(rank-1, n)
	have := mod(first, n)
	for range n - 1 {
		next := mod(have-1, n)
		if err := p.Sendrecv(right, block(have), left, block(next)); err != nil {
			return err
		}
		have = next
	}
	return nil
}
