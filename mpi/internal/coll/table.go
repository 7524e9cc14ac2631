package coll

import (
	"fmt"
	"math"
	"math/bits"
	"strings"
	"text/tabwriter"
)

// Collective names an operation in the table of algorithms.
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

// String is the name of the collective in lower case.
func (c Collective) String() string { return collectiveNames[c] }

// Algorithm names a way to do a collective.
type Algorithm uint8

// The algorithms; the file of that name tells more.
const (
	None Algorithm = iota
	InMemory
	Dissemination
	Binomial
	ScatterRing
	ReduceScatterGather
	RecursiveDoubling
	Rabenseifner
	Ring
	Linear
	Bruck
	Spread
	Pairwise
)

var algorithmNames = [...]string{
	"none", "in memory", "dissemination", "binomial", "scatter, ring", "reduce-scatter, gather", "recursive doubling",
	"Rabenseifner", "ring", "linear", "Bruck", "spread", "pairwise",
}

// String is the name of the algorithm as the literature has it.
func (a Algorithm) String() string { return algorithmNames[a] }

// Rule says when an algorithm is taken. The first rule that fits is the one.
type Rule struct {
	Collective Collective
	Algorithm  Algorithm
	// MaxBytes is the most it is taken for. What is counted is, for Bcast, Reduce and Allreduce, the buffer; for
	// Gather, Scatter, Allgather and Alltoall, the block from one rank to another; for Allgatherv and
	// ReduceScatter, all blocks together.
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

// rules is the table, most particular rule first. Limits of InMemory are where messages were found to be faster between
// 2, 4 or 8 ranks on 2 cores. Limits between algorithms with messages are where their costs cross, about, for
// a = 0.5 µs, b = 0.1 ns and g = 0.05 ns, which is what a node of 2020 or later has.
var rules = [...]Rule{
	{Collective: OfBarrier, Algorithm: InMemory, MaxBytes: always},
	{Collective: OfBarrier, Algorithm: Dissemination, MaxBytes: always},

	{Collective: OfBcast, Algorithm: InMemory, MaxBytes: 64 * kib},
	{Collective: OfBcast, Algorithm: InMemory, MaxBytes: always, MinRanks: 3},
	{Collective: OfBcast, Algorithm: Binomial, MaxBytes: 32 * kib},
	{Collective: OfBcast, Algorithm: ScatterRing, MaxBytes: always, MinRanks: 8},
	{Collective: OfBcast, Algorithm: Binomial, MaxBytes: always},

	{Collective: OfReduce, Algorithm: InMemory, MaxBytes: 1024 * kib},
	{Collective: OfReduce, Algorithm: InMemory, MaxBytes: always, MinRanks: 3},
	{Collective: OfReduce, Algorithm: Binomial, MaxBytes: 16 * kib},
	{Collective: OfReduce, Algorithm: ReduceScatterGather, MaxBytes: always, MinRanks: 3},
	{Collective: OfReduce, Algorithm: Binomial, MaxBytes: always},

	{Collective: OfAllreduce, Algorithm: InMemory, MaxBytes: 1024 * kib},
	{Collective: OfAllreduce, Algorithm: InMemory, MaxBytes: always, MaxRanks: 2},
	{Collective: OfAllreduce, Algorithm: RecursiveDoubling, MaxBytes: 8 * kib},
	{Collective: OfAllreduce, Algorithm: Rabenseifner, MaxBytes: always, PowerOfTwo: true},
	{Collective: OfAllreduce, Algorithm: Rabenseifner, MaxBytes: 32 * kib},
	{Collective: OfAllreduce, Algorithm: Ring, MaxBytes: always, Commutative: true},
	{Collective: OfAllreduce, Algorithm: Rabenseifner, MaxBytes: always},

	{Collective: OfGather, Algorithm: InMemory, MaxBytes: 128 * kib},
	{Collective: OfGather, Algorithm: Binomial, MaxBytes: 2 * kib, MinRanks: 3},
	{Collective: OfGather, Algorithm: Linear, MaxBytes: always},

	{Collective: OfScatter, Algorithm: InMemory, MaxBytes: 8 * kib},
	{Collective: OfScatter, Algorithm: Binomial, MaxBytes: 2 * kib, MinRanks: 3},
	{Collective: OfScatter, Algorithm: Linear, MaxBytes: always},

	{Collective: OfAllgather, Algorithm: InMemory, MaxBytes: 128 * kib},
	{Collective: OfAllgather, Algorithm: RecursiveDoubling, MaxBytes: 32 * kib, PowerOfTwo: true},
	{Collective: OfAllgather, Algorithm: Bruck, MaxBytes: 2 * kib},
	{Collective: OfAllgather, Algorithm: Ring, MaxBytes: always},

	{Collective: OfAllgatherv, Algorithm: Spread, MaxBytes: 32 * kib},
	{Collective: OfAllgatherv, Algorithm: Ring, MaxBytes: always},

	{Collective: OfAlltoall, Algorithm: InMemory, MaxBytes: 8 * kib},
	{Collective: OfAlltoall, Algorithm: Bruck, MaxBytes: 512, MinRanks: 8},
	{Collective: OfAlltoall, Algorithm: Spread, MaxBytes: 32 * kib},
	{Collective: OfAlltoall, Algorithm: Pairwise, MaxBytes: always},

	{Collective: OfReduceScatter, Algorithm: RecursiveDoubling, MaxBytes: 4 * kib},
	{Collective: OfReduceScatter, Algorithm: Pairwise, MaxBytes: always},
}

// Rules is a copy of the table, in the order in which it is searched.
func Rules() []Rule { return append([]Rule(nil), rules[:]...) }

// pick is the algorithm with messages of the first rule that fits.
func pick(c Collective, bytes, ranks int, commutative bool) Algorithm {
	return find(c, bytes, ranks, commutative, false).Algorithm
}

// find is the first rule that fits, or one that says None. Rules for InMemory fit only if there is memory that the
// ranks share.
func find(c Collective, bytes, ranks int, commutative, shared bool) Rule {
	for i := range rules {
		r := &rules[i]
		switch {
		case r.Collective != c || bytes > r.MaxBytes:
		case ranks < r.MinRanks || r.MaxRanks > 0 && ranks > r.MaxRanks:
		case r.Algorithm == InMemory && !shared:
		case r.Commutative && !commutative:
		case r.PowerOfTwo && bits.OnesCount(uint(ranks)) > 1:
		default:
			return *r
		}
	}
	return Rule{}
}

// Explain is the table as text, a line per rule, with sizes in bytes.
func Explain() string {
	var s strings.Builder
	w := tabwriter.NewWriter(&s, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "collective\talgorithm\tup to\tranks\trestriction")
	for _, r := range rules {
		size, ranks, limit := "any", "any", []string{}
		if r.MaxBytes != always {
			size = fmt.Sprint(r.MaxBytes)
		}
		switch {
		case r.MinRanks > 0:
			ranks = fmt.Sprintf("from %d", r.MinRanks)
		case r.MaxRanks > 0:
			ranks = fmt.Sprintf("to %d", r.MaxRanks)
		}
		if r.Algorithm == InMemory {
			limit = append(limit, "ranks share memory")
		}
		if r.PowerOfTwo {
			limit = append(limit, "ranks are a power of two")
		}
		if r.Commutative {
			limit = append(limit, "operation commutes")
		}
		fmt.Fprintf(w, "%v\t%v\t%s\t%s\t%s\n", r.Collective, r.Algorithm, size, ranks, strings.Join(limit, ", "))
	}
	w.Flush() // a strings.Builder takes everything
	return s.String()
}
