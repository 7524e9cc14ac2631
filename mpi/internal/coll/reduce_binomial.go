package coll

// reduceBinomial: up a binomial tree; each rank combines what it has with what comes from its children, nearest
// first, so that what it has is always of neighbouring ranks. Where order matters the tree stands on rank 0, which
// hands the result on.
//
// Cost: lg n * (a + m*b + m*g), and a + m*b more for an operation that does not commute; for any n.
func reduceBinomial(p Peer, dst, src []byte, op *Operation, root int) error {
	rank, n := p.Rank(), p.Size()
	top := root
	if !op.Commutative {
		top = 0
	}
	v := mod(rank-top, n)
	own, have := dst, src // have is what goes up: src alone, or what is in own
	if rank != root && v&1 == 0 {
		own = p.Scratch(len(src))
	}
	var tmp []byte
	for bit := 1; bit < n; bit *= 2 {
		if v&bit != 0 {
			if err := p.Send(mod(rank-bit, n), have); err != nil {
				return err
			}
			break
		}
		if v+bit >= n {
			continue
		}
		if tmp == nil {
			tmp = p.Scratch(len(src))
		}
		if err := p.Recv(mod(rank+bit, n), tmp); err != nil {
			return err
		}
		own = own[:len(src)]
		op.Kernel(own, have, tmp)
		have = own
	}
	switch {
	case top == root:
		return nil
	case rank == top:
		return p.Send(root, have)
	case rank == root:
		return p.Recv(top, dst[:len(src)])
	}
	return nil
}
