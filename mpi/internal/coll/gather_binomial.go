package coll

// gatherBinomial: up a binomial tree; each rank hands up what its subtree has, in one message. Blocks are collected
// in the order of ranks counted from the root, and turned at the end.
//
// Cost: lg n * a + (n-1) * m*b, and two copies; for any n.
func gatherBinomial(p Peer, dst, src []byte, root, n int) error {
	rank, size := p.Rank(), p.Size()
	v := mod(rank-root, size)
	if rank == root && inPlace(dst, src) {
		src = nth(dst, rank, n)
	}
	if v&1 != 0 {
		return p.Send(mod(rank-1, size), src)
	}
	tmp := p.Scratch(n * subtree(v, size))
	copy(tmp[:n], src)
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
	high := (size - root) * n // what comes from the root and the ranks after it
	copy(dst[root*n:size*n], tmp[:high])
	copy(dst[:root*n], tmp[high:])
	return nil
}

// subtree is the number of ranks in the part of a binomial tree of size ranks that is below v, v included.
func subtree(v, size int) int {
	if v == 0 {
		return size
	}
	return min(v&-v, size-v)
}
