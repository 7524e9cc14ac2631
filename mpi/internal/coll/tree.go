package coll

// AllreduceTree is Allreduce over one binomial tree: a reduction to rank 0, then a broadcast from there. It takes twice as many
// steps, but needs far fewer connections, n-1 rather than n/2 * lg n: so it is for ranks that are not connected to each other.
//
// Cost: 2 * lg n * (a + m*b) + lg n * m*g, for any n.
func AllreduceTree(p Peer, dst, src []byte, op *Operation) error {
	if p.Size() == 1 {
		p.Copy(dst, src)
		return nil
	}
	dst = dst[:len(src)]
	if err := reduceBinomial(p, dst, src, op, 0); err != nil {
		return err
	}
	return bcastBinomial(p, dst, 0)
}

// BarrierTree is Barrier over the edges of AllreduceTree.
func BarrierTree(p Peer) error {
	return AllreduceTree(p, nil, nil, &nothing)
}

// nothing combines nothing.
var nothing = Operation{Kernel: func(_, _, _ []byte) {}, ElemSize: 1, Commutative: true}
