package coll

// alltoallPairwise: in step k the ranks whose sum is k, modulo n, exchange their blocks. Because they exchange, an
// incoming block can replace the outgoing one.
//
// Cost: n * (a + m*b), for any n; each rank communicates with one other at a time. In place each block is copied once more.
func alltoallPairwise(p Peer, dst, src []byte, n int) error {
	var tmp []byte
	if inPlace(dst, src) {
		tmp = p.Scratch(n)
	}
	return pairwise(p, tmp, func(i int) []byte { return blockAt(dst, i, n) }, func(i int) []byte { return blockAt(src, i, n) })
}

// alltoallvPairwise is alltoallPairwise in place for blocks of different lengths. No message is sent for an empty block.
func alltoallvPairwise(p Peer, buf []byte, at *Layout) error {
	longest := 0
	for _, c := range at.Counts {
		longest = max(longest, c*at.Elem)
	}
	block := func(i int) []byte { return at.block(buf, i) }
	return pairwise(p, p.Scratch(longest), block, block)
}

// pairwise exchanges blocks with each other rank in turn. If tmp is not nil, in and out are the same memory.
func pairwise(p Peer, tmp []byte, in, out func(i int) []byte) error {
	rank, n := p.Rank(), p.Size()
	for k := range n {
		i := mod(k-rank, n)
		to, from := out(i), in(i)
		if i == rank {
			if tmp == nil {
				p.Copy(from, to)
			}
			continue
		}
		if tmp != nil {
			p.Copy(tmp, to)
			to = tmp[:len(to)]
		}
		if err := exchange(p, i, to, from); err != nil {
			return err
		}
	}
	return nil
}

// exchange sends and receives blocks that are not empty.
func exchange(p Peer, i int, to, from []byte) error {
	switch {
	case len(to) > 0 && len(from) > 0:
		return p.Sendrecv(i, to, i, from)
	case len(to) > 0:
		return p.Send(i, to)
	case len(from) > 0:
		return p.Recv(i, from)
	}
	return nil
}
