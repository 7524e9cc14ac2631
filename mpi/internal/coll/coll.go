package coll

// Barrier returns when every rank has called it.
func Barrier(p Peer) error {
	if shared(p, OfBarrier, 0) != nil {
		return nil
	}
	return barrierDissemination(p)
}

// Bcast copies the root's buf to every rank.
func Bcast(p Peer, buf []byte, root int) error {
	if len(buf) == 0 || p.Size() == 1 {
		return nil
	}
	if x := shared(p, OfBcast, len(buf)); x != nil {
		x.dst, x.src, x.Root = buf, buf, root
		return nil
	}
	if selectAlgorithm(p, OfBcast, len(buf), true) == ScatterRing {
		return bcastScatterRing(p, buf, root)
	}
	return bcastBinomial(p, buf, root)
}

// Reduce combines the src of all ranks into dst of the root.
func Reduce(p Peer, dst, src []byte, op *Operation, root int) error {
	if len(src) == 0 {
		return nil
	}
	if p.Size() == 1 {
		p.Copy(dst, src)
		return nil
	}
	if x := shared(p, OfReduce, len(src)); x != nil {
		x.dst, x.src, x.op, x.Root = dst, src, op, root
		return nil
	}
	if selectAlgorithm(p, OfReduce, len(src), op.Commutative) == ReduceScatterGather {
		return reduceScatterGather(p, dst, src, op, root)
	}
	return reduceBinomial(p, dst, src, op, root)
}

// Allreduce combines the src of all ranks into dst of each, with the same bits at every rank.
func Allreduce(p Peer, dst, src []byte, op *Operation) error {
	if len(src) == 0 {
		return nil
	}
	if p.Size() == 1 {
		p.Copy(dst, src)
		return nil
	}
	if x := shared(p, OfAllreduce, len(src)); x != nil {
		x.dst, x.src, x.op = dst, src, op
		return nil
	}
	switch selectAlgorithm(p, OfAllreduce, len(src), op.Commutative) {
	case Ring:
		return allreduceRing(p, dst, src, op)
	case Rabenseifner:
		return allreduceRabenseifner(p, dst, src, op)
	default:
		return allreduceDoubling(p, dst, src, op)
	}
}

// Gather collects the src of all ranks in dst of the root, in rank order.
func Gather(p Peer, dst, src []byte, root int) error {
	n := len(src)
	if p.Rank() == root {
		n = len(dst) / p.Size()
	}
	if n == 0 {
		return nil
	}
	if x := shared(p, OfGather, n); x != nil {
		x.dst, x.src, x.Root = dst, src, root
		return nil
	}
	if selectAlgorithm(p, OfGather, n, true) == Binomial {
		return gatherBinomial(p, dst, src, root, n)
	}
	return gatherLinear(p, dst, src, root, n)
}

// Gatherv collects the src of all ranks in dst of the root, at the positions of at. The Layout is used at the root only.
func Gatherv(p Peer, dst []byte, at Layout, src []byte, root int) error {
	return gathervLinear(p, dst, &at, src, root)
}

// Scatter copies to each rank its block of the root's src.
func Scatter(p Peer, dst, src []byte, root int) error {
	n := len(dst)
	if p.Rank() == root {
		n = len(src) / p.Size()
	}
	if n == 0 {
		return nil
	}
	if x := shared(p, OfScatter, n); x != nil {
		x.dst, x.src, x.Root = dst, src, root
		return nil
	}
	if selectAlgorithm(p, OfScatter, n, true) == Binomial {
		return scatterBinomial(p, dst, src, root, n)
	}
	return scatterLinear(p, dst, src, root, n)
}

// Scatterv copies to each rank its block of the root's src, at the positions of at. The Layout is used at the root only.
func Scatterv(p Peer, dst, src []byte, at Layout, root int) error {
	return scattervLinear(p, dst, src, &at, root)
}

// Allgather collects the src of all ranks in dst of each, in rank order.
func Allgather(p Peer, dst, src []byte) error {
	n := len(dst) / p.Size()
	if n == 0 {
		return nil
	}
	if x := shared(p, OfAllgather, n); x != nil {
		x.dst, x.src = dst, src
		return nil
	}
	switch selectAlgorithm(p, OfAllgather, n, true) {
	case RecursiveDoubling:
		return allgatherDoubling(p, dst, src, n)
	case Bruck:
		return allgatherBruck(p, dst, src, n)
	default:
		return allgatherRing(p, dst, src, n)
	}
}

// Allgatherv collects the src of all ranks in dst of each, at the positions of at. Only at.Displs may differ between ranks.
func Allgatherv(p Peer, dst []byte, at Layout, src []byte) error {
	if !inPlace(dst, src) {
		p.Copy(at.block(dst, p.Rank()), src)
	}
	total := 0
	for _, c := range at.Counts {
		total += c * at.Elem
	}
	if selectAlgorithm(p, OfAllgatherv, total, true) == Scattered {
		return allgathervScattered(p, dst, &at)
	}
	return allgathervRing(p, dst, &at)
}

// Alltoall copies block i of src to rank i, into the block of dst that has this rank's number.
func Alltoall(p Peer, dst, src []byte) error {
	n := len(dst) / p.Size()
	if n == 0 {
		return nil
	}
	if x := shared(p, OfAlltoall, n); x != nil {
		x.dst, x.src = dst, src
		return nil
	}
	switch a := selectAlgorithm(p, OfAlltoall, n, true); {
	case a == Bruck:
		return alltoallBruck(p, dst, src, n)
	case a == Pairwise || inPlace(dst, src):
		return alltoallPairwise(p, dst, src, n)
	default:
		return alltoallScattered(p, dst, src, n)
	}
}

// Alltoallv sends to each rank its block of src, at the positions of from, and receives blocks into dst at the positions of to.
// In place, to applies to both.
func Alltoallv(p Peer, dst []byte, to Layout, src []byte, from Layout) error {
	if inPlace(dst, src) {
		return alltoallvPairwise(p, dst, &to)
	}
	return alltoallvScattered(p, dst, &to, src, &from)
}

// ReduceScatter combines the src of all ranks. Rank i receives its counts[i] elements of the result in dst.
// counts is the same at all ranks. In place, the result is at the start of the buffer.
func ReduceScatter(p Peer, dst, src []byte, counts []int, op *Operation) error {
	total := 0
	for _, c := range counts {
		total += c * op.ElemSize
	}
	if total == 0 {
		return nil
	}
	if x := shared(p, OfReduceScatter, total); x != nil {
		x.dst, x.src, x.op = dst, src[:total], op
		for _, c := range counts[:p.Rank()] {
			x.first += c * op.ElemSize
		}
		return nil
	}
	if selectAlgorithm(p, OfReduceScatter, total, op.Commutative) == RecursiveDoubling {
		return reduceScatterDoubling(p, dst, src[:total], counts, op)
	}
	return reduceScatterPairwise(p, dst, src, counts, op)
}

// Scan combines the src of ranks 0 to this one, itself included, into dst.
func Scan(p Peer, dst, src []byte, op *Operation) error {
	if len(src) == 0 {
		return nil
	}
	return scan(p, dst, src, op)
}

// Exscan combines the src of the ranks before this one into dst. Rank 0's dst does not change.
func Exscan(p Peer, dst, src []byte, op *Operation) error {
	if len(src) == 0 {
		return nil
	}
	return exscan(p, dst, src, op)
}
