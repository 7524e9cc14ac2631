package coll

import "math/bits"

// Arguments are those of a collective. Blocks have the same length, except those of ReduceScatter, which have Counts elements.
type Arguments struct {
	Dst, Src []byte // Bcast: Src is the buffer
	Root     int
	Op       *Operation
	Counts   []int
}

// algorithms are the algorithms with messages of each collective that [Run] runs.
var algorithms = [...][]Algorithm{
	OfBarrier:       {Dissemination},
	OfBcast:         {Binomial, ScatterRing},
	OfReduce:        {Binomial, ReduceScatterGather},
	OfAllreduce:     {RecursiveDoubling, Rabenseifner, Ring},
	OfGather:        {Binomial, Linear},
	OfScatter:       {Binomial, Linear},
	OfAllgather:     {RecursiveDoubling, Bruck, Ring},
	OfAllgatherv:    nil,
	OfAlltoall:      {Bruck, Scattered, Pairwise},
	OfReduceScatter: {RecursiveDoubling, Pairwise},
}

// Algorithms returns the algorithms with messages of a collective between some ranks, for commutative operations.
func Algorithms(c Collective, ranks int) (found []Algorithm) {
	for _, a := range algorithms[c] {
		if c == OfAllgather && a == RecursiveDoubling && bits.OnesCount(uint(ranks)) > 1 {
			continue
		}
		found = append(found, a)
	}
	return found
}

// Run makes a collective by one of its Algorithms, between at least two ranks.
func Run(p Peer, c Collective, a Algorithm, x *Arguments) error {
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
		return gatherBinomial(p, x.Dst, x.Src, x.Root, len(x.Src))
	case c == OfGather:
		return gatherLinear(p, x.Dst, x.Src, x.Root, len(x.Src))
	case c == OfScatter && a == Binomial:
		return scatterBinomial(p, x.Dst, x.Src, x.Root, len(x.Dst))
	case c == OfScatter:
		return scatterLinear(p, x.Dst, x.Src, x.Root, len(x.Dst))
	case c == OfAllgather && a == RecursiveDoubling:
		return allgatherDoubling(p, x.Dst, x.Src, len(x.Src))
	case c == OfAllgather && a == Bruck:
		return allgatherBruck(p, x.Dst, x.Src, len(x.Src))
	case c == OfAllgather:
		return allgatherRing(p, x.Dst, x.Src, len(x.Src))
	case a == Bruck:
		return alltoallBruck(p, x.Dst, x.Src, len(x.Dst)/p.Size())
	case a == Scattered:
		return alltoallScattered(p, x.Dst, x.Src, len(x.Dst)/p.Size())
	}
	return alltoallPairwise(p, x.Dst, x.Src, len(x.Dst)/p.Size())
}
