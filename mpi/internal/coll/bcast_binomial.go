package coll

// bcastBinomial: each rank forwards the buffer down a binomial tree from the root. Let v be the rank relative to the root: the
// parent is v without its lowest bit, the children are v plus one lower bit each.
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
