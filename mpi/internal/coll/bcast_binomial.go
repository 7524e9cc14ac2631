package coll

// bcastBinomial: down a binomial tree with the root on top. Counted from the root, rank v has its parent where v's
// lowest bit is taken away, and its children where lower bits are added.
//
// Cost: lg n * (a + m*b), for any n.
func bcastBinomial(p Peer, buf []byte, root int) error {
	rank, n := p.Rank(), p.Size()
	v := mod(rank-root, n)
	bit := 1
	for ; bit < n; bit *= 2 {
		if v&bit != 0 {
			if err := p.Recv(mod(rank-bit, n), buf); err != nil {
				return err
			}
			break
		}
	}
	for bit /= 2; bit > 0; bit /= 2 {
		if v+bit < n {
			if err := p.Send(mod(rank+bit, n), buf); err != nil {
				return err
			}
		}
	}
	return nil
}
