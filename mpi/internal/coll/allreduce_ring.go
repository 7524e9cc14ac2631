package coll

// allreduceRing: each of n parts passes once around the ring while every rank adds its own data, and once more so that
// every rank receives the result.
//
// Cost: 2 * (n-1) * a + (2 * m*b + m*g) * (n-1)/n, for any n. The operation must be commutative.
func allreduceRing(p Peer, dst, src []byte, op *Operation) error {
	rank, n := p.Rank(), p.Size()
	right, left := mod(rank+1, n), mod(rank-1, n)
	parts := partition{len(src) / op.ElemSize, op.ElemSize, n}
	tmp := p.Scratch(len(parts.part(src, 0)))
	at := rank
	sendBuf := parts.part(src, at)
	for range n - 1 {
		at = mod(at-1, n)
		own, sum := parts.part(src, at), parts.part(dst, at)
		recvBuf := tmp[:len(own)]
		if err := p.Sendrecv(right, sendBuf, left, recvBuf); err != nil {
			return err
		}
		p.Combine(op, sum, own, recvBuf)
		sendBuf = sum
	}
	return passAround(p, at, func(i int) []byte { return parts.part(dst, i) })
}
