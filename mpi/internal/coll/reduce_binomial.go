package coll

// reduceBinomial: each rank combines its data with those of its children in a binomial tree, nearest first, so that the combined
// ranks are always neighbours, and sends the result to its parent. If the operation is not commutative the tree begins at
// rank 0, which sends the result to the root.
//
// Cost: lg n * (a + m*b + m*g), and a + m*b more if the operation is not commutative; for any n.
func reduceBinomial(p Peer, dst, src []byte, op *Operation, root int) error {
	rank, n := p.Rank(), p.Size()
	top := root
	if !op.Commutative {
		top = 0
	}
	v := mod(rank-top, n)
	own, have := dst, src // have is the data for the parent: src alone, or the sum in own
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
		p.Combine(op, own, have, tmp)
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
