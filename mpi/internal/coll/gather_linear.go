package coll

// gatherLinear: the root receives from all at once.
//
// Cost: (n-1) * (a + m*b) at the root, a + m*b elsewhere; for any n, and nothing is copied twice.
func gatherLinear(p Peer, dst, src []byte, root, n int) error {
	if p.Rank() != root {
		return p.Send(root, src)
	}
	if !inPlace(dst, src) {
		copy(nth(dst, root, n), src)
	}
	return collect(p, func(i int) []byte { return nth(dst, i, n) })
}

// gathervLinear is gatherLinear for blocks of different lengths. An empty one is no message.
func gathervLinear(p Peer, dst []byte, at *Layout, src []byte, root int) error {
	if p.Rank() != root {
		if len(src) == 0 {
			return nil
		}
		return p.Send(root, src)
	}
	if !inPlace(dst, src) {
		copy(at.block(dst, root), src)
	}
	return collect(p, func(i int) []byte { return at.block(dst, i) })
}

// collect receives a block from each other rank that has one.
func collect(p Peer, block func(i int) []byte) error {
	rank, n := p.Rank(), p.Size()
	hs := handles(p, n)
	for i := range n {
		if b := block(i); i != rank && len(b) > 0 {
			h, err := p.Irecv(i, b)
			if err != nil {
				return err
			}
			hs = append(hs, h)
		}
	}
	return p.Waitall(hs)
}
