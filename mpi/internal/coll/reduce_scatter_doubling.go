package coll

// reduceScatterDoubling: every rank computes the whole result by recursive doubling and copies its part.
//
// Cost: as allreduceDoubling, m being the bytes of all blocks together.
func reduceScatterDoubling(p Peer, dst, src []byte, counts []int, op *Operation) error {
	all := p.Scratch(len(src))
	if err := allreduceDoubling(p, all, src, op); err != nil {
		return err
	}
	p.Copy(dst, blockOf(all, counts, p.Rank(), op.ElemSize))
	return nil
}

// blockOf returns rank i's block of a buffer in which blocks of counts elements follow each other.
func blockOf(buf []byte, counts []int, i, elem int) []byte {
	lo, hi := blockBounds(counts, i, elem)
	return buf[lo:hi]
}

// blockBounds returns where rank i's block begins and ends in a buffer in which blocks of counts elements follow each other.
func blockBounds(counts []int, i, elem int) (lo, hi int) {
	for _, c := range counts[:i] {
		lo += c * elem
	}
	return lo, lo + counts[i]*elem
}
