package coll

// scatterBinomial: each rank receives the blocks of its subtree of a binomial tree in one message. The root first rotates the
// blocks into the order of ranks relative to itself.
//
// Cost: lg n * a + (n-1) * m*b, and two copies; for any n.
func scatterBinomial(p Peer, dst, src []byte, root, n int) error {
	rank, size := p.Rank(), p.Size()
	v := mod(rank-root, size)
	if v&1 != 0 {
		return p.Recv(mod(rank-1, size), dst)
	}
	tmp := p.Scratch(n * subtree(v, size))
	bit := 1
	if v == 0 {
		high := (size - root) * n // the blocks of the root and the ranks after it
		p.Copy(tmp[:high], src[root*n:size*n])
		p.Copy(tmp[high:], src[:root*n])
		for bit < size {
			bit *= 2
		}
	} else {
		bit = v & -v
		if err := p.Recv(mod(rank-bit, size), tmp); err != nil {
			return err
		}
	}
	for bit /= 2; bit > 0; bit /= 2 {
		if v+bit < size {
			if err := p.Send(mod(rank+bit, size), tmp[bit*n:(bit+subtree(v+bit, size))*n]); err != nil {
				return err
			}
		}
	}
	if rank != root || !inPlace(dst, src) {
		p.Copy(dst, tmp[:n])
	}
	return nil
}
