package coll

// alltoallBruck: in step k each rank forwards, to the rank 2^k after it, all blocks whose remaining distance has bit k
// set.
//
// Cost: lg n * (a + n/2 * m*b), and n * m * (2 + lg n) bytes copied; for any n.
func alltoallBruck(p Peer, dst, src []byte, n int) error {
	rank, size := p.Rank(), p.Size()
	tmp := p.Scratch(n * size) // block i is i ranks away from its destination
	sendBuf, recvBuf := p.Scratch(n*(size/2+1)), p.Scratch(n*(size/2+1))
	high := (size - rank) * n
	p.Copy(tmp[:high], src[rank*n:size*n])
	p.Copy(tmp[high:], src[:rank*n])
	for d := 1; d < size; d *= 2 {
		c := 0
		for i := d; i < size; i++ {
			if i&d != 0 {
				p.Copy(blockAt(sendBuf, c, n), blockAt(tmp, i, n))
				c++
			}
		}
		if err := p.Sendrecv(mod(rank+d, size), sendBuf[:c*n], mod(rank-d, size), recvBuf[:c*n]); err != nil {
			return err
		}
		c = 0
		for i := d; i < size; i++ {
			if i&d != 0 {
				p.Copy(blockAt(tmp, i, n), blockAt(recvBuf, c, n))
				c++
			}
		}
	}
	for i := range size {
		p.Copy(blockAt(dst, mod(rank-i, size), n), blockAt(tmp, i, n))
	}
	return nil
}
