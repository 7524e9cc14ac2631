package coll

// barrierDissemination: in step k each rank sends an empty message to the rank 2^k after it. After lg n steps every rank has
// received, directly or indirectly, from all others.
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
