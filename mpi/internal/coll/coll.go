package coll

import "math/bits"

// Barrier returns when every rank has called it.
func Barrier(p Peer) error {
	if shared(p, ShmCall{Collective: OfBarrier}) {
		return nil
	}
	return Run(p, OfBarrier, selectAlgorithm(p, OfBarrier, 0), nil)
}

// Bcast copies the root's buf to every rank.
func Bcast(p Peer, buf []byte, root int) error {
	if len(buf) == 0 || p.Size() == 1 {
		return nil
	}
	if shared(p, ShmCall{Collective: OfBcast, Bytes: len(buf), Root: root, dst: buf, src: buf}) {
		return nil
	}
	return Run(p, OfBcast, selectAlgorithm(p, OfBcast, len(buf)), &Arguments{Src: buf, Root: root})
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
	if shared(p, ShmCall{Collective: OfReduce, Bytes: len(src), Root: root, dst: dst, src: src, op: op}) {
		return nil
	}
	a := selectReduction(p, OfReduce, len(src), op)
	return Run(p, OfReduce, a, &Arguments{Dst: dst, Src: src, Op: op, Root: root})
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
	if shared(p, ShmCall{Collective: OfAllreduce, Bytes: len(src), dst: dst, src: src, op: op}) {
		return nil
	}
	a := selectReduction(p, OfAllreduce, len(src), op)
	return Run(p, OfAllreduce, a, &Arguments{Dst: dst, Src: src, Op: op})
}

// Gather collects the src of all ranks in dst of the root, in rank order.
func Gather(p Peer, dst, src []byte, root int) error {
	x := Arguments{Dst: dst, Src: src, Root: root}
	n := x.block(p, OfGather)
	if n == 0 {
		return nil
	}
	if shared(p, ShmCall{Collective: OfGather, Bytes: n, Root: root, dst: dst, src: src}) {
		return nil
	}
	return Run(p, OfGather, selectAlgorithm(p, OfGather, n), &x)
}

// Gatherv collects the src of all ranks in dst of the root, at the positions of at. The Layout is used at the root only.
func Gatherv(p Peer, dst []byte, at Layout, src []byte, root int) error {
	return gathervLinear(p, dst, &at, src, root)
}

// Scatter copies to each rank its block of the root's src.
func Scatter(p Peer, dst, src []byte, root int) error {
	x := Arguments{Dst: dst, Src: src, Root: root}
	n := x.block(p, OfScatter)
	if n == 0 {
		return nil
	}
	if shared(p, ShmCall{Collective: OfScatter, Bytes: n, Root: root, dst: dst, src: src}) {
		return nil
	}
	return Run(p, OfScatter, selectAlgorithm(p, OfScatter, n), &x)
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
	if shared(p, ShmCall{Collective: OfAllgather, Bytes: n, dst: dst, src: src}) {
		return nil
	}
	return Run(p, OfAllgather, selectAlgorithm(p, OfAllgather, n), &Arguments{Dst: dst, Src: src})
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
	if selectAlgorithm(p, OfAllgatherv, total) == Scattered {
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
	if shared(p, ShmCall{Collective: OfAlltoall, Bytes: n, dst: dst, src: src}) {
		return nil
	}
	return Run(p, OfAlltoall, selectAlgorithm(p, OfAlltoall, n), &Arguments{Dst: dst, Src: src})
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
	first, end := blockBounds(counts, p.Rank(), op.ElemSize)
	dst = dst[:end-first]
	if shared(p, ShmCall{Collective: OfReduceScatter, Bytes: total, dst: dst, src: src[:total], op: op, first: first}) {
		return nil
	}
	a := selectReduction(p, OfReduceScatter, total, op)
	return Run(p, OfReduceScatter, a, &Arguments{Dst: dst, Src: src[:total], Counts: counts, Op: op})
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

// Arguments are those of a collective. Blocks have the same length, except those of ReduceScatter, which have Counts elements.
type Arguments struct {
	Dst, Src []byte // Bcast: Src is the buffer
	Root     int
	Op       *Operation
	Counts   []int
}

// algorithms are the algorithms with messages of each collective that [Run] runs.
var algorithms = [...][]Algorithm{
	OfBarrier:       {TwoLevel, Dissemination},
	OfBcast:         {TwoLevel, Binomial, ScatterRing},
	OfReduce:        {TwoLevel, Binomial, ReduceScatterGather},
	OfAllreduce:     {TwoLevel, TwoLevelParts, RecursiveDoubling, Rabenseifner, Ring},
	OfGather:        {TwoLevel, Binomial, Linear},
	OfScatter:       {Binomial, Linear},
	OfAllgather:     {TwoLevel, RecursiveDoubling, Bruck, Ring},
	OfAllgatherv:    nil,
	OfAlltoall:      {Bruck, Scattered, Pairwise},
	OfReduceScatter: {RecursiveDoubling, Pairwise},
}

// Algorithms returns the algorithms of a family that [Run] runs, of a collective between some ranks, for commutative operations.
func Algorithms(c Collective, ranks int, f Family) (found []Algorithm) {
	for _, a := range algorithms[c] {
		if a.Possible(c, ranks, f) {
			found = append(found, a)
		}
	}
	return found
}

// Possible reports whether some ranks that have the algorithms of a family can use this one for a collective that has it.
func (a Algorithm) Possible(c Collective, ranks int, f Family) bool {
	if c == OfAllgather && a == RecursiveDoubling && bits.OnesCount(uint(ranks)) > 1 {
		return false
	}
	return a.family()&^f == 0
}

// Run makes a collective by one of its Algorithms, between at least two ranks. Every function of this package that has a choice
// of algorithms ends here; only [Allgatherv], whose blocks have a Layout, does not.
func Run(p Peer, c Collective, a Algorithm, x *Arguments) error {
	if a.family()&TwoLevels != 0 {
		return runTwoLevel(p, c, a, x)
	}
	switch c {
	case OfBarrier:
		return barrierDissemination(p)
	case OfBcast:
		if a == ScatterRing {
			return bcastScatterRing(p, x.Src, x.Root)
		}
		return bcastBinomial(p, x.Src, x.Root)
	case OfReduce:
		if a == ReduceScatterGather {
			return reduceScatterGather(p, x.Dst, x.Src, x.Op, x.Root)
		}
		return reduceBinomial(p, x.Dst, x.Src, x.Op, x.Root)
	case OfAllreduce:
		return runAllreduce(p, a, x)
	case OfReduceScatter:
		if a == RecursiveDoubling {
			return reduceScatterDoubling(p, x.Dst, x.Src, x.Counts, x.Op)
		}
		return reduceScatterPairwise(p, x.Dst, x.Src, x.Counts, x.Op)
	}
	return runBlocks(p, c, a, x)
}

// runTwoLevel makes a collective on two levels.
func runTwoLevel(p Peer, c Collective, a Algorithm, x *Arguments) error {
	l := p.Levels()
	switch {
	case c == OfBarrier:
		return barrierTwoLevel(p, l)
	case c == OfBcast:
		return bcastTwoLevel(l, x.Src, x.Root)
	case c == OfReduce:
		return reduceTwoLevel(p, l, x.Dst, x.Src, x.Op, x.Root)
	case a == TwoLevelParts:
		return allreduceTwoLevelParts(l, x.Dst, x.Src, x.Op)
	case c == OfAllreduce:
		return allreduceTwoLevel(l, x.Dst, x.Src, x.Op)
	case c == OfGather:
		return gatherTwoLevel(p, l, x.Dst, x.Src, x.Root, x.block(p, c))
	}
	return allgatherTwoLevel(p, l, x.Dst, x.Src, x.block(p, c))
}

func runAllreduce(p Peer, a Algorithm, x *Arguments) error {
	switch a {
	case Ring:
		return allreduceRing(p, x.Dst, x.Src, x.Op)
	case Rabenseifner:
		return allreduceRabenseifner(p, x.Dst, x.Src, x.Op)
	}
	return allreduceDoubling(p, x.Dst, x.Src, x.Op)
}

// runBlocks makes a collective that moves a block from or to each rank.
func runBlocks(p Peer, c Collective, a Algorithm, x *Arguments) error {
	switch {
	case c == OfGather && a == Binomial:
		return gatherBinomial(p, x.Dst, x.Src, x.Root, x.block(p, c))
	case c == OfGather:
		return gatherLinear(p, x.Dst, x.Src, x.Root, x.block(p, c))
	case c == OfScatter && a == Binomial:
		return scatterBinomial(p, x.Dst, x.Src, x.Root, x.block(p, c))
	case c == OfScatter:
		return scatterLinear(p, x.Dst, x.Src, x.Root, x.block(p, c))
	case c == OfAllgather && a == RecursiveDoubling:
		return allgatherDoubling(p, x.Dst, x.Src, x.block(p, c))
	case c == OfAllgather && a == Bruck:
		return allgatherBruck(p, x.Dst, x.Src, x.block(p, c))
	case c == OfAllgather:
		return allgatherRing(p, x.Dst, x.Src, x.block(p, c))
	case a == Bruck:
		return alltoallBruck(p, x.Dst, x.Src, x.block(p, c))
	case a == Scattered && !inPlace(x.Dst, x.Src): // Scattered needs two buffers
		return alltoallScattered(p, x.Dst, x.Src, x.block(p, c))
	}
	return alltoallPairwise(p, x.Dst, x.Src, x.block(p, c))
}

// block returns the bytes of the block from one rank to another. The buffer of all blocks says so, which in a Gather and a
// Scatter only the root has.
func (x *Arguments) block(p Peer, c Collective) int {
	switch {
	case c == OfGather && p.Rank() != x.Root:
		return len(x.Src)
	case c == OfScatter && p.Rank() != x.Root:
		return len(x.Dst)
	case c == OfScatter:
		return len(x.Src) / p.Size()
	}
	return len(x.Dst) / p.Size()
}
