package coll

// reduceScatterPairwise: in step k each rank sends to the rank k after it that rank's block, and receives its own block from
// the rank k before it. Blocks arrive first from lower ranks, in descending order, and then from higher ranks, also in descending
// order. So two sums, each extended at its left end, keep the rank order.
//
// Cost: (n-1) * (a + m*b + m*g), m being the bytes of one block; for any n.
func reduceScatterPairwise(p Peer, dst, src []byte, counts []int, op *Operation) error {
	rank, n := p.Rank(), p.Size()
	own := blockOf(src, counts, rank, op.ElemSize)
	low, tmp := p.Scratch(len(own)), p.Scratch(len(own))
	var high []byte
	p.Copy(low, own)
	for k := 1; k < n; k++ {
		to, from := mod(rank+k, n), mod(rank-k, n)
		if err := p.Sendrecv(to, blockOf(src, counts, to, op.ElemSize), from, tmp); err != nil {
			return err
		}
		switch {
		case from < rank:
			p.Combine(op, tmp, tmp, low)
			low, tmp = tmp, low
		case high == nil:
			high, tmp = tmp, p.Scratch(len(own))
		default:
			p.Combine(op, tmp, tmp, high)
			high, tmp = tmp, high
		}
	}
	dst = dst[:len(own)]
	if high == nil {
		p.Copy(dst, low)
	} else {
		p.Combine(op, dst, low, high)
	}
	return nil
}
