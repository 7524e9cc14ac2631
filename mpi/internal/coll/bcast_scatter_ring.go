package coll

// bcastScatterRing: the root scatters n parts of the buffer down a binomial tree, and all ranks pass them around a ring
// (van de Geijn).
//
// Cost: (lg n + n - 1) * a + 2 * m*b * (n-1)/n, for any n.
func bcastScatterRing(p Peer, buf []byte, root int) error {
	rank, n := p.Rank(), p.Size()
	v := mod(rank-root, n)
	parts := partition{len(buf), 1, n}
	bit := 1
	for ; bit < n; bit *= 2 {
		if v&bit != 0 {
			if err := p.Recv(mod(rank-bit, n), parts.span(buf, v, min(v+bit, n))); err != nil {
				return err
			}
			break
		}
	}
	for bit /= 2; bit > 0; bit /= 2 {
		if v+bit < n {
			if err := p.Send(mod(rank+bit, n), parts.span(buf, v+bit, min(v+2*bit, n))); err != nil {
				return err
			}
		}
	}
	return passAround(p, v, func(i int) []byte { return parts.part(buf, i) })
}
