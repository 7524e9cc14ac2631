package coll

// allgatherDoubling: in step k pairs of ranks 2^k apart exchange the 2^k blocks that they have.
//
// Cost: lg n * a + (n-1) * m*b. n is a power of two.
func allgatherDoubling(p Peer, dst, src []byte, n int) error {
	rank, size := p.Rank(), p.Size()
	if !inPlace(dst, src) {
		p.Copy(blockAt(dst, rank, n), src)
	}
	for d := 1; d < size; d *= 2 {
		mine := rank &^ (d - 1)
		theirs := mine ^ d
		if err := p.Sendrecv(rank^d, dst[mine*n:(mine+d)*n], rank^d, dst[theirs*n:(theirs+d)*n]); err != nil {
			return err
		}
	}
	return nil
}
