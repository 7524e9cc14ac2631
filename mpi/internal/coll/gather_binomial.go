package coll

// gatherBinomial: each rank sends the blocks of its subtree up a binomial tree, in one message. Blocks are collected
// in the order of ranks relative to the root, and rotated at the end.
//
// Cost: lg n * a + (n-1) * m*b, and two copies; for any n.
func gatherBinomial(p Peer, dst, src []byte, root, n int) error {
	rank, size := p.Rank(), p.Size()
	v := mod(rank-root, size)
	if rank == root && inPlace(dst, src) {
		src = blockAt(dst, rank, n)
	}
	if v&1 != 0 {
		return p.Send(mod(rank-1, size), src)
	}
	tmp := p.Scratch(n * subtree(v, size))
	p.Copy(tmp[:n], src)
	for bit := 1; bit < size; bit *= 2 {
		if v&bit != 0 {
			return p.Send(mod(rank-bit, size), tmp)
		}
		if v+bit < size {
			if err := p.Recv(mod(rank+bit, size), tmp[bit*n:(bit+subtree(v+bit, size))*n]); err != nil {
				return err
			}
		}
	}
	high := (size - root) * n // the blocks of the root and the ranks after it
	p.Copy(dst[root*n:size*n], tmp[:high])
	p.Copy(dst[:root*n], tmp[high:])
	return nil
}

// subtree returns the number of ranks in the subtree of v, v included, of a binomial tree of size ranks.
func subtree(v, size int) int {
	if v == 0 {
		return size
	}
	return min(v&-v, size-v)
}
