package coll

// gatherLinear: the root receives from all ranks together.
//
// Cost: (n-1) * (a + m*b) at the root, a + m*b elsewhere; for any n, and each block is copied once.
func gatherLinear(p Peer, dst, src []byte, root, n int) error {
	if p.Rank() != root {
		return p.Send(root, src)
	}
	if !inPlace(dst, src) {
		p.Copy(blockAt(dst, root, n), src)
	}
	return recvBlocks(p, func(i int) []byte { return blockAt(dst, i, n) })
}

// gathervLinear is gatherLinear for blocks of different lengths. No message is sent for an empty block.
func gathervLinear(p Peer, dst []byte, at *Layout, src []byte, root int) error {
	if p.Rank() != root {
		if len(src) == 0 {
			return nil
		}
		return p.Send(root, src)
	}
	if !inPlace(dst, src) {
		p.Copy(at.block(dst, root), src)
	}
	return recvBlocks(p, func(i int) []byte { return at.block(dst, i) })
}

// recvBlocks receives a block from each other rank whose block is not empty.
func recvBlocks(p Peer, block func(i int) []byte) error {
	rank, n := p.Rank(), p.Size()
	hs := handles(p, n)
	for i := range n {
		if b := block(i); i != rank && len(b) > 0 {
			h, err := p.Irecv(i, b)
			if err != nil {
				return abandon(p, hs, err)
			}
			hs = append(hs, h)
		}
	}
	return p.Waitall(hs)
}
