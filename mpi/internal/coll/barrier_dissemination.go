package coll

// barrierDissemination: in round k each rank tells the one 2^k after it, so that after lg n rounds it has heard of all.
//
// Cost: lg n * a, for any n.
func barrierDissemination(p Peer) error {
	rank, n := p.Rank(), p.Size()
	for d := 1; d < n; d *= 2 {
		if err := p.Sendrecv(mod(rank+d, n), nil, mod(rank-d, n), nil); err != nil {
			return err
		}
	}
	return nil
}
