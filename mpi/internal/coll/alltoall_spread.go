package coll

// alltoallSpread: every rank begins all its receives and sends at once, each starting with another rank.
//
// Cost: (n-1) * (a + m*b), for any n; a rank waits once and not n-1 times, which counts when ranks share cores.
func alltoallSpread(p Peer, dst, src []byte, n int) error {
	copy(nth(dst, p.Rank(), n), nth(src, p.Rank(), n))
	return spread(p, func(i int) []byte { return nth(dst, i, n) }, func(i int) []byte { return nth(src, i, n) })
}

// alltoallvSpread is alltoallSpread for blocks of different lengths. An empty one is no message.
func alltoallvSpread(p Peer, dst []byte, to *Layout, src []byte, from *Layout) error {
	copy(to.block(dst, p.Rank()), from.block(src, p.Rank()))
	return spread(p, func(i int) []byte { return to.block(dst, i) }, func(i int) []byte { return from.block(src, i) })
}

// allgathervSpread sends this rank's block, which is in place, to every other rank, and receives theirs.
func allgathervSpread(p Peer, dst []byte, at *Layout) error {
	own := at.block(dst, p.Rank())
	return spread(p, func(i int) []byte { return at.block(dst, i) }, func(int) []byte { return own })
}

// spread receives a block from and sends a block to each other rank.
func spread(p Peer, in, out func(i int) []byte) error {
	rank, n := p.Rank(), p.Size()
	hs := handles(p, 2*n)
	for d := 1; d < n; d++ {
		from := mod(rank-d, n)
		if b := in(from); len(b) > 0 {
			h, err := p.Irecv(from, b)
			if err != nil {
				return err
			}
			hs = append(hs, h)
		}
	}
	for d := 1; d < n; d++ {
		to := mod(rank+d, n)
		if b := out(to); len(b) > 0 {
			h, err := p.Isend(to, b)
			if err != nil {
				return err
			}
			hs = append(hs, h)
		}
	}
	return p.Waitall(hs)
}
