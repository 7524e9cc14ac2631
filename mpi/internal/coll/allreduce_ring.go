package coll

// allreduceRing: each of n parts travels once round the ring while every rank adds its own to it, and once more to
// tell all.
//
// Cost: 2 * (n-1) * a + (2 * m*b + m*g) * (n-1)/n, for any n. The operation commutes.
func allreduceRing(p Peer, dst, src []byte, op *Operation) error {
	rank, n := p.Rank(), p.Size()
	right, left := mod(rank+1, n), mod(rank-1, n)
	parts := cut{len(src) / op.ElemSize, op.ElemSize, n}
	tmp := p.Scratch(len(parts.of(src, 0)))
	at := rank
	give := parts.of(src, at)
	for range n - 1 {
		at = mod(at-1, n)
		own, sum := parts.of(src, at), parts.of(dst, at)
		got := tmp[:len(own)]
		if err := p.Sendrecv(right, give, left, got); err != nil {
			return err
		}
		op.Kernel(sum, own, got)
		give = sum
	}
	return circulate(p, at, func(i int) []byte { return parts.of(dst, i) })
}
