package coll

// scatterLinear: the root sends to all ranks together.
//
// Cost: (n-1) * (a + m*b) at the root, a + m*b elsewhere; for any n, and each block is copied once.
func scatterLinear(p Peer, dst, src []byte, root, n int) error {
	if p.Rank() != root {
		return p.Recv(root, dst)
	}
	if !inPlace(dst, src) {
		p.Copy(dst, blockAt(src, root, n))
	}
	return sendBlocks(p, func(i int) []byte { return blockAt(src, i, n) })
}

// scattervLinear is scatterLinear for blocks of different lengths. No message is sent for an empty block.
func scattervLinear(p Peer, dst, src []byte, at *Layout, root int) error {
	if p.Rank() != root {
		if len(dst) == 0 {
			return nil
		}
		return p.Recv(root, dst)
	}
	if !inPlace(dst, src) {
		p.Copy(dst, at.block(src, root))
	}
	return sendBlocks(p, func(i int) []byte { return at.block(src, i) })
}

// sendBlocks sends to each other rank its block, if it is not empty.
func sendBlocks(p Peer, block func(i int) []byte) error {
	rank, n := p.Rank(), p.Size()
	hs := handles(p, n)
	for i := range n {
		if b := block(i); i != rank && len(b) > 0 {
			h, err := p.Isend(i, b)
			if err != nil {
				return abandon(p, hs, err)
			}
			hs = append(hs, h)
		}
	}
	return p.Waitall(hs)
}
