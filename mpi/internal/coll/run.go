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
