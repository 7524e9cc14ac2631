package coll

// allgatherRing: each rank passes on to the next what it got last from the one before.
//
// Cost: (n-1) * (a + m*b), for any n; neighbours talk to neighbours only.
func allgatherRing(p Peer, dst, src []byte, n int) error {
	if !inPlace(dst, src) {
		copy(nth(dst, p.Rank(), n), src)
	}
	return circulate(p, p.Rank(), func(i int) []byte { return nth(dst, i, n) })
}

// allgathervRing is allgatherRing for blocks of different lengths; this rank's own is in place.
//
// Cost: (n-1) * (a + M*b), where M is the longest block.
func allgathervRing(p Peer, dst []byte, at *Layout) error {
	return circulate(p, p.Rank(), func(i int) []byte { return at.block(dst, i) })
}

// circulate passes blocks round the ring of all ranks until each rank has all. At first a rank has the block with
// the number first, the next rank the one with the next number, modulo the number of ranks.
func circulate(p Peer, first int, block func(i int) []byte) error {
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
