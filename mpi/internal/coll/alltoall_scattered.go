package coll

// alltoallScattered: every rank starts all its receives and sends together, each beginning with another rank.
//
// Cost: (n-1) * (a + m*b), for any n; a rank waits once instead of n-1 times, which matters if ranks share cores.
func alltoallScattered(p Peer, dst, src []byte, n int) error {
	p.Copy(blockAt(dst, p.Rank(), n), blockAt(src, p.Rank(), n))
	return exchangeAll(p, func(i int) []byte { return blockAt(dst, i, n) }, func(i int) []byte { return blockAt(src, i, n) })
}

// alltoallvScattered is alltoallScattered for blocks of different lengths. No message is sent for an empty block.
func alltoallvScattered(p Peer, dst []byte, to *Layout, src []byte, from *Layout) error {
	p.Copy(to.block(dst, p.Rank()), from.block(src, p.Rank()))
	return exchangeAll(p, func(i int) []byte { return to.block(dst, i) }, func(i int) []byte { return from.block(src, i) })
}

// allgathervScattered sends this rank's block, which is in place, to every other rank, and receives theirs.
func allgathervScattered(p Peer, dst []byte, at *Layout) error {
	own := at.block(dst, p.Rank())
	return exchangeAll(p, func(i int) []byte { return at.block(dst, i) }, func(int) []byte { return own })
}

// exchangeAll receives a block from each other rank and sends a block to each.
func exchangeAll(p Peer, in, out func(i int) []byte) error {
	rank, n := p.Rank(), p.Size()
	hs := handles(p, 2*n)
	for d := 1; d < n; d++ {
		from := mod(rank-d, n)
		if b := in(from); len(b) > 0 {
			h, err := p.Irecv(from, b)
			if err != nil {
				return abandon(p, hs, err)
			}
			hs = append(hs, h)
		}
	}
	for d := 1; d < n; d++ {
		to := mod(rank+d, n)
		if b := out(to); len(b) > 0 {
			h, err := p.Isend(to, b)
			if err != nil {
				return abandon(p, hs, err)
			}
			hs = append(hs, h)
		}
	}
	return p.Waitall(hs)
}
