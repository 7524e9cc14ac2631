package coll

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
)

// Collective is a collective operation in the table of algorithms.
type Collective uint8

// The collectives. A v-form that is missing here has only one algorithm.
const (
	OfBarrier Collective = iota
	OfBcast
	OfReduce
	OfAllreduce
	OfGather
	OfScatter
	OfAllgather
	OfAllgatherv
	OfAlltoall
	OfReduceScatter
)

var collectiveNames = [...]string{
	"barrier", "bcast", "reduce", "allreduce", "gather", "scatter", "allgather", "allgatherv", "alltoall", "reduce_scatter",
}

// String returns the name of the collective in lower case.
func (c Collective) String() string { return collectiveNames[c] }

// Algorithm is an algorithm for a collective operation.
type Algorithm uint8

// The algorithms. The file of each name describes the algorithm; SharedMemory and DirectCopy are methods of [Shm].
const (
	None Algorithm = iota
	SharedMemory
	DirectCopy
	Dissemination
	Binomial
	ScatterRing
	ReduceScatterGather
	RecursiveDoubling
	Rabenseifner
	Ring
	Linear
	Bruck
	Scattered
	Pairwise
)

var algorithmNames = [...]string{
	"none", "shared memory", "direct copy", "dissemination", "binomial", "scatter, ring", "reduce-scatter, gather",
	"recursive doubling", "Rabenseifner", "ring", "linear", "Bruck", "scattered", "pairwise",
}

// String returns the name of the algorithm in the literature.
func (a Algorithm) String() string { return algorithmNames[a] }

// Rule says when an algorithm is selected. The first rule that fits applies.
type Rule struct {
	Collective Collective
	Algorithm  Algorithm
	// MaxBytes is the largest length for which it is selected. The length is, for Bcast, Reduce and Allreduce, that of the
	// buffer; for Gather, Scatter, Allgather and Alltoall, that of the block from one rank to another; for Allgatherv and
	// ReduceScatter, that of all blocks together.
	MaxBytes int
	// MinRanks and MaxRanks are the least and the largest number of ranks, 0 for any.
	MinRanks, MaxRanks int
	// PowerOfTwo and Commutative restrict the number of ranks and the operation.
	PowerOfTwo, Commutative bool
}

const (
	kib    = 1 << 10
	always = math.MaxInt
)

// rules is the table, most specific rule first. The limits of SharedMemory and DirectCopy were measured with 2, 4 and 8 ranks on
// 2 cores: messages are faster beyond them. A DirectCopy of short blocks goes through slots. The limits between algorithms with
// messages are approximately where their costs are equal for a = 0.5 µs, b = 0.1 ns and g = 0.05 ns, typical values of a node of
// 2020 or later. Those of Bcast from 64 ranks on were found by package simulate, with 16 ranks on a node.
var rules = [...]Rule{
	{Collective: OfBarrier, Algorithm: SharedMemory, MaxBytes: always},
	{Collective: OfBarrier, Algorithm: Dissemination, MaxBytes: always},

	{Collective: OfBcast, Algorithm: SharedMemory, MaxBytes: 64 * kib},
	{Collective: OfBcast, Algorithm: SharedMemory, MaxBytes: always, MinRanks: 3},
	{Collective: OfBcast, Algorithm: Binomial, MaxBytes: 1024 * kib, MinRanks: 1024},
	{Collective: OfBcast, Algorithm: Binomial, MaxBytes: 256 * kib, MinRanks: 256},
	{Collective: OfBcast, Algorithm: Binomial, MaxBytes: 64 * kib, MinRanks: 64},
	{Collective: OfBcast, Algorithm: Binomial, MaxBytes: 32 * kib},
	{Collective: OfBcast, Algorithm: ScatterRing, MaxBytes: always, MinRanks: 8},
	{Collective: OfBcast, Algorithm: Binomial, MaxBytes: always},

	{Collective: OfReduce, Algorithm: SharedMemory, MaxBytes: 1024 * kib},
	{Collective: OfReduce, Algorithm: SharedMemory, MaxBytes: always, MinRanks: 3},
	{Collective: OfReduce, Algorithm: Binomial, MaxBytes: 16 * kib},
	{Collective: OfReduce, Algorithm: ReduceScatterGather, MaxBytes: always, MinRanks: 3},
	{Collective: OfReduce, Algorithm: Binomial, MaxBytes: always},

	{Collective: OfAllreduce, Algorithm: SharedMemory, MaxBytes: 1024 * kib},
	{Collective: OfAllreduce, Algorithm: SharedMemory, MaxBytes: always, MaxRanks: 2},
	{Collective: OfAllreduce, Algorithm: RecursiveDoubling, MaxBytes: 8 * kib},
	{Collective: OfAllreduce, Algorithm: Rabenseifner, MaxBytes: always, PowerOfTwo: true},
	{Collective: OfAllreduce, Algorithm: Rabenseifner, MaxBytes: 32 * kib},
	{Collective: OfAllreduce, Algorithm: Ring, MaxBytes: always, Commutative: true},
	{Collective: OfAllreduce, Algorithm: Rabenseifner, MaxBytes: always},

	{Collective: OfGather, Algorithm: SharedMemory, MaxBytes: 256 * kib},
	{Collective: OfGather, Algorithm: Binomial, MaxBytes: 2 * kib, MinRanks: 3},
	{Collective: OfGather, Algorithm: Linear, MaxBytes: always},

	{Collective: OfScatter, Algorithm: SharedMemory, MaxBytes: 8 * kib},
	{Collective: OfScatter, Algorithm: DirectCopy, MaxBytes: always, MinRanks: 5},
	{Collective: OfScatter, Algorithm: Binomial, MaxBytes: 2 * kib, MinRanks: 3},
	{Collective: OfScatter, Algorithm: Linear, MaxBytes: always},

	{Collective: OfAllgather, Algorithm: SharedMemory, MaxBytes: always},
	{Collective: OfAllgather, Algorithm: RecursiveDoubling, MaxBytes: 32 * kib, PowerOfTwo: true},
	{Collective: OfAllgather, Algorithm: Bruck, MaxBytes: 2 * kib},
	{Collective: OfAllgather, Algorithm: Ring, MaxBytes: always},

	{Collective: OfAllgatherv, Algorithm: Scattered, MaxBytes: 32 * kib},
	{Collective: OfAllgatherv, Algorithm: Ring, MaxBytes: always},

	{Collective: OfAlltoall, Algorithm: SharedMemory, MaxBytes: 8 * kib},
	{Collective: OfAlltoall, Algorithm: SharedMemory, MaxBytes: 128 * kib, MinRanks: 3},
	{Collective: OfAlltoall, Algorithm: DirectCopy, MaxBytes: always, MinRanks: 3},
	{Collective: OfAlltoall, Algorithm: Bruck, MaxBytes: 512, MinRanks: 8},
	{Collective: OfAlltoall, Algorithm: Scattered, MaxBytes: 32 * kib},
	{Collective: OfAlltoall, Algorithm: Pairwise, MaxBytes: always},

	{Collective: OfReduceScatter, Algorithm: SharedMemory, MaxBytes: always},
	{Collective: OfReduceScatter, Algorithm: RecursiveDoubling, MaxBytes: 4 * kib},
	{Collective: OfReduceScatter, Algorithm: Pairwise, MaxBytes: always},
}

// selectAlgorithm returns the algorithm with messages of the first rule that fits.
func selectAlgorithm(p Peer, c Collective, bytes int, commutative bool) Algorithm {
	return Choose(p.Table(), c, bytes, p.Size(), commutative, Messages).Algorithm
}

// Family says which algorithms can be used.
type Family uint8

// The families.
const (
	Messages Family = iota // those with messages only
	Shared                 // also SharedMemory
	Direct                 // also SharedMemory and DirectCopy
)

// family returns the first family that has the algorithm.
func (a Algorithm) family() Family {
	switch a {
	case SharedMemory:
		return Shared
	case DirectCopy:
		return Direct
	}
	return Messages
}

// search returns the first rule that fits, or one with the algorithm None.
func search(rules []Rule, c Collective, bytes, ranks int, commutative bool, has Family) Rule {
	for i := range rules {
		r := &rules[i]
		switch {
		case r.Collective != c || bytes > r.MaxBytes:
		case ranks < r.MinRanks || r.MaxRanks > 0 && ranks > r.MaxRanks:
		case r.Algorithm.family() > has:
		case r.Commutative && !commutative:
		case r.PowerOfTwo && bits.OnesCount(uint(ranks)) > 1:
		default:
			return *r
		}
	}
	return Rule{}
}

// Choose returns the rule that selects the algorithm of a blocking collective between ranks that have the algorithms of a family:
// the first one that fits, of the table and then of this package. bytes is counted as [Rule.MaxBytes] describes.
func Choose(t *Table, c Collective, bytes, ranks int, commutative bool, f Family) Rule {
	if t != nil && ranks > 1 {
		if r := search(t.Rules, c, bytes, ranks, commutative, f); r.Algorithm != None {
			return r
		}
	}
	return search(rules[:], c, bytes, ranks, commutative, f)
}

// ParseCollective returns the collective with a name.
func ParseCollective(name string) (Collective, bool) {
	i := slices.Index(collectiveNames[:], name)
	return Collective(max(i, 0)), i >= 0
}

// Conditions returns when the rule fits, such as "up to 8192 bytes, from 3 ranks".
func (r Rule) Conditions() string {
	var all []string
	if r.MaxBytes != always {
		all = append(all, fmt.Sprintf("up to %d bytes", r.MaxBytes))
	}
	if r.MinRanks > 0 {
		all = append(all, fmt.Sprintf("from %d ranks", r.MinRanks))
	}
	if r.MaxRanks > 0 {
		all = append(all, fmt.Sprintf("up to %d ranks", r.MaxRanks))
	}
	if r.PowerOfTwo {
		all = append(all, "a power of two of ranks")
	}
	if r.Commutative {
		all = append(all, "a commutative operation")
	}
	if len(all) == 0 {
		return "in all other cases"
	}
	return strings.Join(all, ", ")
}
