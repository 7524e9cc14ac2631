package coll

// scatterLinear: the root sends to all at once.
//
// Cost: (n-1) * (a + m*b) at the root, a + m*b elsewhere; for any n, and nothing is copied twice.
func scatterLinear(p Peer, dst, src []byte, root, n int) error {
	if p.Rank() != root {
		return p.Recv(root, dst)
	}
	if !inPlace(dst, src) {
		copy(dst, nth(src, root, n))
	}
	return deal(p, func(i int) []byte { return nth(src, i, n) })
}

// scattervLinear is scatterLinear for blocks of different lengths. An empty one is no message.
func scattervLinear(p Peer, dst, src []byte, at *Layout, root int) error {
	if p.Rank() != root {
		if len(dst) == 0 {
			return nil
		}
		return p.Recv(root, dst)
	}
	if !inPlace(dst, src) {
		copy(dst, at.block(src, root))
	}
	return deal(p, func(i int) []byte { return at.block(src, i) })
}

// deal sends each other rank the block that it is to have, if there is one.
func deal(p Peer, block func(i int) []byte) error {
	rank, n := p.Rank(), p.Size()
	hs := handles(p, n)
	for i := range n {
		if b := block(i); i != rank && len(b) > 0 {
			h, err := p.Isend(i, b)
			if err != nil {
				return err
			}
			hs = append(hs, h)
		}
	}
	return p.Waitall(hs)
}
