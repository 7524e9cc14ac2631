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

// The algorithms. The file of each name describes the algorithm; SharedMemory, SharedTwoLevel and DirectCopy are methods
// of [Shm].
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
	TwoLevel
	TwoLevelParts
	SharedTwoLevel
)

var algorithmNames = [...]string{
	"none", "shared memory", "direct copy", "dissemination", "binomial", "scatter, ring", "reduce-scatter, gather",
	"recursive doubling", "Rabenseifner", "ring", "linear", "Bruck", "scattered", "pairwise",
	"two-level", "two-level, parts", "shared memory, two-level",
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
	// Needs restricts it to [TwoLevels], [NodeMemory], [OversubscribedNodes] or [Oversubscribed]; 0 for any.
	Needs Family
}

const (
	kib    = 1 << 10
	always = math.MaxInt
)

// rules is the table, most specific rule first. The limits of SharedMemory and DirectCopy were measured by ibrun bench tune on
// hosts with 2 cores, with 2, 3, 4, 8 and 16 ranks (ReduceScatter with 2, 4 and 8): beyond them the next rule is faster. Where
// hosts differ, no other algorithm is clearly faster on all of them together: TestRulesOfHosts compares the table with their
// figures, in testdata/tune. More than 2 ranks shared cores: a rule that holds only there needs Oversubscribed. A DirectCopy of
// short blocks goes through slots. The limits between algorithms with messages are approximately where their costs are equal
// for a = 0.5 µs, b = 0.1 ns and g = 0.05 ns, typical values of a node of 2020 or later. Those of Bcast from 64 ranks on were
// found by package simulate, with 16 ranks on a node. Scattered for long blocks of up to 8 ranks was measured only with
// Oversubscribed, on one node; ranks there choose among the rules for messages again.
//
// Package simulate also found those of TwoLevel and TwoLevelParts over messages, with 8 to 512 ranks and 4 to 64 on a node. Where
// ranks share memory and cores, TwoLevel was measured between 2 nodes with 4 ranks on 2 cores; where each has a core, the limits
// are approximately where the costs are equal. Immediate calls that use shared memory on several nodes have the same rules.
// SharedTwoLevel could not be measured: numaFromRanks says why it is used.
var rules = [...]Rule{
	{Collective: OfBarrier, Algorithm: SharedTwoLevel, MaxBytes: always, MinRanks: numaFromRanks},
	{Collective: OfBarrier, Algorithm: SharedMemory, MaxBytes: always},
	{Collective: OfBarrier, Algorithm: TwoLevel, MaxBytes: always, Needs: NodeMemory},
	{Collective: OfBarrier, Algorithm: Dissemination, MaxBytes: always},

	{Collective: OfBcast, Algorithm: SharedMemory, MaxBytes: 128 * kib},
	{Collective: OfBcast, Algorithm: SharedMemory, MaxBytes: 256 * kib, MaxRanks: 2},
	{Collective: OfBcast, Algorithm: Binomial, MaxBytes: always, MaxRanks: 2},
	{Collective: OfBcast, Algorithm: DirectCopy, MaxBytes: always},
	{Collective: OfBcast, Algorithm: SharedMemory, MaxBytes: always},
	{Collective: OfBcast, Algorithm: TwoLevel, MaxBytes: 256 * kib, Needs: NodeMemory},
	{Collective: OfBcast, Algorithm: TwoLevel, MaxBytes: always, Needs: OversubscribedNodes},
	{Collective: OfBcast, Algorithm: Binomial, MaxBytes: 1024 * kib, MinRanks: 1024},
	{Collective: OfBcast, Algorithm: Binomial, MaxBytes: 256 * kib, MinRanks: 256},
	{Collective: OfBcast, Algorithm: Binomial, MaxBytes: 64 * kib, MinRanks: 64},
	{Collective: OfBcast, Algorithm: Binomial, MaxBytes: 32 * kib},
	{Collective: OfBcast, Algorithm: ScatterRing, MaxBytes: always, MinRanks: 8},
	{Collective: OfBcast, Algorithm: Binomial, MaxBytes: always},

	{Collective: OfReduce, Algorithm: SharedTwoLevel, MaxBytes: always, MinRanks: numaFromRanks},
	{Collective: OfReduce, Algorithm: SharedMemory, MaxBytes: always},
	{Collective: OfReduce, Algorithm: TwoLevel, MaxBytes: 256 * kib, Needs: NodeMemory},
	{Collective: OfReduce, Algorithm: TwoLevel, MaxBytes: always, Needs: OversubscribedNodes},
	{Collective: OfReduce, Algorithm: Binomial, MaxBytes: 16 * kib},
	{Collective: OfReduce, Algorithm: TwoLevel, MaxBytes: 64 * kib, MinRanks: 256},
	{Collective: OfReduce, Algorithm: ReduceScatterGather, MaxBytes: always, MinRanks: 3},
	{Collective: OfReduce, Algorithm: Binomial, MaxBytes: always},

	{Collective: OfAllreduce, Algorithm: SharedTwoLevel, MaxBytes: placeBytes, MinRanks: numaFromRanks},
	{Collective: OfAllreduce, Algorithm: SharedMemory, MaxBytes: always, MaxRanks: 2},
	{Collective: OfAllreduce, Algorithm: SharedMemory, MaxBytes: 1024 * kib},
	{Collective: OfAllreduce, Algorithm: TwoLevel, MaxBytes: always, Needs: OversubscribedNodes},
	{Collective: OfAllreduce, Algorithm: TwoLevel, MaxBytes: 2 * kib, Needs: NodeMemory},
	{Collective: OfAllreduce, Algorithm: TwoLevelParts, MaxBytes: always, Needs: NodeMemory},
	{Collective: OfAllreduce, Algorithm: TwoLevel, MaxBytes: 64 * kib, Needs: NodeMemory},
	{Collective: OfAllreduce, Algorithm: RecursiveDoubling, MaxBytes: 1 * kib},
	{Collective: OfAllreduce, Algorithm: TwoLevelParts, MaxBytes: 32 * kib},
	{Collective: OfAllreduce, Algorithm: RecursiveDoubling, MaxBytes: 8 * kib},
	{Collective: OfAllreduce, Algorithm: Rabenseifner, MaxBytes: always, PowerOfTwo: true},
	{Collective: OfAllreduce, Algorithm: Rabenseifner, MaxBytes: 32 * kib},
	{Collective: OfAllreduce, Algorithm: Ring, MaxBytes: always, Commutative: true},
	{Collective: OfAllreduce, Algorithm: Rabenseifner, MaxBytes: always},

	{Collective: OfGather, Algorithm: SharedMemory, MaxBytes: 16 * kib},
	{Collective: OfGather, Algorithm: SharedMemory, MaxBytes: always, MaxRanks: 2},
	{Collective: OfGather, Algorithm: TwoLevel, MaxBytes: 2 * kib},
	{Collective: OfGather, Algorithm: Binomial, MaxBytes: 2 * kib, MinRanks: 3},
	{Collective: OfGather, Algorithm: Linear, MaxBytes: always},

	{Collective: OfScatter, Algorithm: SharedMemory, MaxBytes: 16 * kib},
	{Collective: OfScatter, Algorithm: SharedMemory, MaxBytes: 128 * kib, MaxRanks: 2},
	{Collective: OfScatter, Algorithm: DirectCopy, MaxBytes: always},
	{Collective: OfScatter, Algorithm: Binomial, MaxBytes: 2 * kib, MinRanks: 3},
	{Collective: OfScatter, Algorithm: Linear, MaxBytes: always},

	{Collective: OfAllgather, Algorithm: SharedMemory, MaxBytes: 64 * kib, MaxRanks: 2},
	{Collective: OfAllgather, Algorithm: DirectCopy, MaxBytes: 256 * kib, MaxRanks: 2},
	{Collective: OfAllgather, Algorithm: SharedMemory, MaxBytes: always},
	{Collective: OfAllgather, Algorithm: TwoLevel, MaxBytes: always, Needs: OversubscribedNodes},
	{Collective: OfAllgather, Algorithm: TwoLevel, MaxBytes: 4 * kib, Needs: NodeMemory},
	{Collective: OfAllgather, Algorithm: TwoLevel, MaxBytes: 4 * kib, MinRanks: 512},
	{Collective: OfAllgather, Algorithm: RecursiveDoubling, MaxBytes: 32 * kib, PowerOfTwo: true},
	{Collective: OfAllgather, Algorithm: Bruck, MaxBytes: 2 * kib},
	{Collective: OfAllgather, Algorithm: Ring, MaxBytes: always},

	{Collective: OfAllgatherv, Algorithm: Scattered, MaxBytes: 32 * kib},
	{Collective: OfAllgatherv, Algorithm: Ring, MaxBytes: always},

	{Collective: OfAlltoall, Algorithm: SharedMemory, MaxBytes: 16 * kib},
	{Collective: OfAlltoall, Algorithm: SharedMemory, MaxBytes: 64 * kib, MaxRanks: 2},
	{Collective: OfAlltoall, Algorithm: DirectCopy, MaxBytes: 512 * kib, MaxRanks: 2},
	{Collective: OfAlltoall, Algorithm: SharedMemory, MaxBytes: always, MaxRanks: 2},
	{Collective: OfAlltoall, Algorithm: Scattered, MaxBytes: always, MinRanks: 4, MaxRanks: 8, Needs: Oversubscribed},
	{Collective: OfAlltoall, Algorithm: SharedMemory, MaxBytes: 32 * kib},
	{Collective: OfAlltoall, Algorithm: DirectCopy, MaxBytes: always},
	{Collective: OfAlltoall, Algorithm: SharedMemory, MaxBytes: 128 * kib},
	{Collective: OfAlltoall, Algorithm: Bruck, MaxBytes: 512, MinRanks: 8},
	{Collective: OfAlltoall, Algorithm: Scattered, MaxBytes: 32 * kib},
	{Collective: OfAlltoall, Algorithm: Scattered, MaxBytes: always, MaxRanks: 8},
	{Collective: OfAlltoall, Algorithm: Pairwise, MaxBytes: always},

	{Collective: OfReduceScatter, Algorithm: SharedMemory, MaxBytes: 64 * kib},
	{Collective: OfReduceScatter, Algorithm: DirectCopy, MaxBytes: 1024 * kib, MaxRanks: 2},
	{Collective: OfReduceScatter, Algorithm: SharedMemory, MaxBytes: always, MaxRanks: 2},
	{Collective: OfReduceScatter, Algorithm: SharedMemory, MaxBytes: 192 * kib},
	{Collective: OfReduceScatter, Algorithm: DirectCopy, MaxBytes: always},
	{Collective: OfReduceScatter, Algorithm: SharedMemory, MaxBytes: always},
	{Collective: OfReduceScatter, Algorithm: RecursiveDoubling, MaxBytes: 4 * kib, MinRanks: 3},
	{Collective: OfReduceScatter, Algorithm: Pairwise, MaxBytes: always},
}

// immediateRules is the table for immediate collectives within a node. The limits were measured as those of rules, with 2, 4 and
// 8 ranks on 2 cores. What has the algorithm None, or no rule, uses messages.
var immediateRules = [...]Rule{
	{Collective: OfBarrier, Algorithm: SharedMemory, MaxBytes: always},

	{Collective: OfBcast, Algorithm: SharedMemory, MaxBytes: 64 * kib, MaxRanks: 2},
	{Collective: OfBcast, Algorithm: None, MaxBytes: always, MaxRanks: 2},
	{Collective: OfBcast, Algorithm: SharedMemory, MaxBytes: 128 * kib},
	{Collective: OfBcast, Algorithm: DirectCopy, MaxBytes: always},
	{Collective: OfBcast, Algorithm: SharedMemory, MaxBytes: always},

	{Collective: OfReduce, Algorithm: SharedMemory, MaxBytes: always},

	{Collective: OfAllreduce, Algorithm: SharedMemory, MaxBytes: 1024 * kib},
	{Collective: OfAllreduce, Algorithm: SharedMemory, MaxBytes: always, MaxRanks: 2},

	{Collective: OfGather, Algorithm: SharedMemory, MaxBytes: 8 * kib},
	{Collective: OfGather, Algorithm: SharedMemory, MaxBytes: always, MaxRanks: 2},

	{Collective: OfScatter, Algorithm: SharedMemory, MaxBytes: 32 * kib},
	{Collective: OfScatter, Algorithm: SharedMemory, MaxBytes: always, MaxRanks: 2},
	{Collective: OfScatter, Algorithm: DirectCopy, MaxBytes: always},

	{Collective: OfAllgather, Algorithm: SharedMemory, MaxBytes: always},

	{Collective: OfAlltoall, Algorithm: SharedMemory, MaxBytes: 64 * kib},
	{Collective: OfAlltoall, Algorithm: SharedMemory, MaxBytes: always, MaxRanks: 2},

	{Collective: OfReduceScatter, Algorithm: SharedMemory, MaxBytes: always},
}

// rulesOf and immediateRulesOf are the rules of each collective, so that the search of a call meets no others.
var rulesOf, immediateRulesOf = byCollective(rules[:]), byCollective(immediateRules[:])

// byCollective divides a table in which the rules of each collective follow one another.
func byCollective(table []Rule) (of [len(collectiveNames)][]Rule) {
	for first, next := 0, 0; first < len(table); first = next {
		for next < len(table) && table[next].Collective == table[first].Collective {
			next++
		}
		of[table[first].Collective] = table[first:next]
	}
	return of
}

// ChooseImmediate returns the rule that selects the algorithm of an immediate collective within a node, between ranks that have
// the algorithms of a family: the first one that fits, of the table and then of this package. The rule has the algorithm None if
// the collective uses messages. Rules with SharedMemory are not used if the slots of so many ranks are too short; see
// [ShmImmediate]. Those with DirectCopy are not used if there is nothing to copy.
func ChooseImmediate(t *Table, c Collective, bytes, ranks int, f Family) Rule {
	if ranks == 1 {
		return Rule{}
	}
	fits := fitsImmediate(c, bytes, ranks)
	if t != nil {
		if r := searchImmediate(t.Immediate, fits, c, bytes, ranks, f); r != nil {
			return *r
		}
	}
	if r := searchImmediate(immediateRulesOf[c], fits, c, bytes, ranks, f); r != nil {
		return *r
	}
	return Rule{}
}

// searchImmediate returns the first rule that fits, or nil. fits says whether the slots have room.
func searchImmediate(rules []Rule, fits bool, c Collective, bytes, ranks int, f Family) *Rule {
	for i := range rules {
		r := &rules[i]
		if r.Algorithm == SharedMemory && !fits || r.Algorithm == DirectCopy && bytes == 0 {
			continue
		}
		if r.fits(c, bytes, ranks, true, f) {
			return r
		}
	}
	return nil
}

// selectAlgorithm returns the algorithm of the first rule that fits, for ranks that do not all share memory.
func selectAlgorithm(p Peer, c Collective, bytes int) Algorithm {
	return Choose(p.Table(), c, bytes, p.Size(), true, p.Levels().family()).Algorithm
}

// selectReduction is selectAlgorithm for a reduction.
func selectReduction(p Peer, c Collective, bytes int, op *Operation) Algorithm {
	l := p.Levels()
	if l != nil && (!op.Commutative && !l.consecutive || l.Memory != 0 && op.ElemSize > MaxSharedElement) {
		l = nil
	}
	return Choose(p.Table(), c, bytes, p.Size(), op.Commutative, l.family()).Algorithm
}

// Family says which algorithms can be used, beside those with messages. Its values are combined by OR.
type Family uint8

// The families.
const (
	Messages            Family = 0                 // no other ones
	Shared              Family = 1                 // SharedMemory
	Direct              Family = Shared | 1<<1     // SharedMemory and DirectCopy
	TwoLevels           Family = 1 << 2            // TwoLevel: the ranks are on several nodes
	EvenLevels          Family = TwoLevels | 1<<3  // TwoLevel and TwoLevelParts: all nodes have the same number of ranks
	NodeMemory          Family = TwoLevels | 1<<4  // and the ranks of each node share memory
	OversubscribedNodes Family = NodeMemory | 1<<5 // and there may be fewer cores than ranks
	NUMANodes           Family = Shared | 1<<6     // SharedMemory and SharedTwoLevel: the ranks are on several NUMA nodes of a node
	Oversubscribed      Family = Shared | 1<<7     // SharedMemory, and there may be fewer cores than ranks
)

// family returns what the algorithm needs.
func (a Algorithm) family() Family {
	switch a {
	case SharedMemory:
		return Shared
	case DirectCopy:
		return Direct
	case TwoLevel:
		return TwoLevels
	case TwoLevelParts:
		return EvenLevels
	case SharedTwoLevel:
		return NUMANodes
	}
	return Messages
}

// family returns what the rule needs.
func (r *Rule) family() Family {
	return r.Algorithm.family() | r.Needs
}

// search returns the first rule that fits, or one with the algorithm None.
func search(rules []Rule, c Collective, bytes, ranks int, commutative bool, has Family) Rule {
	for i := range rules {
		if r := &rules[i]; r.fits(c, bytes, ranks, commutative, has) {
			return *r
		}
	}
	return Rule{}
}

// fits reports whether the rule holds for a collective.
func (r *Rule) fits(c Collective, bytes, ranks int, commutative bool, has Family) bool {
	switch {
	case r.Collective != c || bytes > r.MaxBytes:
	case ranks < r.MinRanks || r.MaxRanks > 0 && ranks > r.MaxRanks:
	case r.family()&^has != 0:
	case r.Commutative && !commutative:
	case r.PowerOfTwo && bits.OnesCount(uint(ranks)) > 1:
	default:
		return true
	}
	return false
}

// Choose returns the rule that selects the algorithm of a blocking collective between ranks that have the algorithms of a family:
// the first one that fits, of the table and then of this package. bytes is counted as [Rule.MaxBytes] describes.
func Choose(t *Table, c Collective, bytes, ranks int, commutative bool, f Family) Rule {
	if t != nil && ranks > 1 {
		if r := search(t.Rules, c, bytes, ranks, commutative, f); r.Algorithm != None {
			return r
		}
	}
	return search(rulesOf[c], c, bytes, ranks, commutative, f)
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
	switch r.Needs {
	case TwoLevels:
		all = append(all, "several nodes")
	case NodeMemory:
		all = append(all, "nodes whose ranks share memory")
	case OversubscribedNodes:
		all = append(all, "nodes whose ranks share memory and cores")
	case Oversubscribed:
		all = append(all, "ranks that share memory and cores")
	}
	if len(all) == 0 {
		return "in all other cases"
	}
	return strings.Join(all, ", ")
}
