package coll

// allgatherBruck: in step k each rank sends all blocks that it has to the rank 2^k before it, which works for any number of
// ranks. Blocks are collected in rotated order, each rank's own first, and rotated back at the end.
//
// Cost: lg n * a + (n-1) * m*b, and two copies of the result; for any n.
func allgatherBruck(p Peer, dst, src []byte, n int) error {
	rank, size := p.Rank(), p.Size()
	tmp := p.Scratch(n * size)
	if inPlace(dst, src) {
		src = blockAt(dst, rank, n)
	}
	p.Copy(tmp[:n], src)
	for d := 1; d < size; d *= 2 {
		c := min(d, size-d)
		if err := p.Sendrecv(mod(rank-d, size), tmp[:c*n], mod(rank+d, size), tmp[d*n:(d+c)*n]); err != nil {
			return err
		}
	}
	high := (size - rank) * n // the blocks of this rank and those after it
	p.Copy(dst[rank*n:], tmp[:high])
	p.Copy(dst[:rank*n], tmp[high:])
	return nil
}
