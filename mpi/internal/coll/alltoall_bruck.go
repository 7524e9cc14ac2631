package coll

// alltoallBruck: in round k each rank hands on, to the rank 2^k after it, all blocks that have that bit in the
// distance they still have to go.
//
// Cost: lg n * (a + n/2 * m*b), and n * m * (2 + lg n) bytes copied; for any n.
func alltoallBruck(p Peer, dst, src []byte, n int) error {
	rank, size := p.Rank(), p.Size()
	tmp := p.Scratch(n * size) // block i is i ranks away from where it is to go
	give, take := p.Scratch(n*(size/2+1)), p.Scratch(n*(size/2+1))
	high := (size - rank) * n
	copy(tmp[:high], src[rank*n:size*n])
	copy(tmp[high:], src[:rank*n])
	for d := 1; d < size; d *= 2 {
		c := 0
		for i := d; i < size; i++ {
			if i&d != 0 {
				copy(nth(give, c, n), nth(tmp, i, n))
				c++
			}
		}
		if err := p.Sendrecv(mod(rank+d, size), give[:c*n], mod(rank-d, size), take[:c*n]); err != nil {
			return err
		}
		c = 0
		for i := d; i < size; i++ {
			if i&d != 0 {
				copy(nth(tmp, i, n), nth(take, c, n))
				c++
			}
		}
	}
	for i := range size {
		copy(nth(dst, mod(rank-i, size), n), nth(tmp, i, n))
	}
	return nil
}
