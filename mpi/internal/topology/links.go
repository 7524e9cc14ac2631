package topology

import (
	"cmp"
	"math/bits"
	"slices"
)

// Edge is a directed edge between ranks. The weight is not negative.
type Edge struct{ From, To, Weight int }

// Links are the links between ranks. The weight of a link is the sum of the weights of the edges between the two ranks, in both
// directions.
type Links struct {
	n       int
	first   []int   // links of rank r are those from first[r] to first[r+1]
	to      []int32 // ascending for each rank
	weights []int64
}

// NewLinks returns the links of n ranks. Edges from a rank to itself do not count. If the weights are so large that their sum
// could overflow, all are divided by a power of two.
func NewLinks(n int, edges []Edge) *Links {
	most := 0
	for _, e := range edges {
		most = max(most, e.Weight)
	}
	// Every edge is counted in both directions.
	shift := max(0, bits.Len(uint(most))+bits.Len(uint(len(edges)))+1-62)
	both := make([]Edge, 0, 2*len(edges))
	for _, e := range edges {
		if w := e.Weight >> shift; e.From != e.To && w > 0 {
			both = append(both, Edge{e.From, e.To, w}, Edge{e.To, e.From, w})
		}
	}
	slices.SortFunc(both, func(a, b Edge) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	l := &Links{n: n, first: make([]int, n+1)}
	for i, e := range both {
		if i > 0 && e.From == both[i-1].From && e.To == both[i-1].To {
			l.weights[len(l.weights)-1] += int64(e.Weight)
			continue
		}
		l.to, l.weights = append(l.to, int32(e.To)), append(l.weights, int64(e.Weight))
		l.first[e.From+1]++
	}
	for r := range n {
		l.first[r+1] += l.first[r]
	}
	return l
}

// of returns the links of a rank.
func (l *Links) of(r int32) (to []int32, weights []int64) {
	lo, hi := l.first[r], l.first[r+1]
	return l.to[lo:hi], l.weights[lo:hi]
}

// Cost is the weight of the links that cross each level: Cost[NUMA] is the weight between ranks that do not share a NUMA
// node, on one node or on two.
type Cost [Levels]int64

// Cost returns the cost of an order: rank r is the process order[r].
func (l *Links) Cost(places []Place, order []int) (c Cost) {
	for r := range order {
		to, weights := l.of(int32(r))
		for i, s := range to {
			if int(s) < r {
				continue // counted at s
			}
			for level := places[order[r]].together(&places[order[s]]); level < Levels; level++ {
				c[level] += weights[i]
			}
		}
	}
	return c
}

// compare orders costs by the cost of the first level, and then of the next ones.
func (c Cost) compare(d Cost) int { return slices.Compare(c[:], d[:]) }

// noWorse reports whether c is at no level above d.
func (c Cost) noWorse(d Cost) bool {
	for level := range c {
		if c[level] > d[level] {
			return false
		}
	}
	return true
}
