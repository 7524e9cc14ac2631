package mpi

import (
	"fmt"

	"github.com/ibrun/ibrun/mpi/internal/core"
)

// Group is an ordered set of processes. Communicators are created from groups, in a session or in the World Model. A
// Group never changes and needs not be freed. Any goroutine may use it. The zero Group is empty. MPI-5.0 §7.2.1.
type Group core.Group

func (g *Group) core() *core.Group { return (*core.Group)(g) }

// group returns the results of a call of core.
func group(g *core.Group, err error) (*Group, error) { return (*Group)(g), public(err) }

// Size returns the number of processes; 0 if g is nil. MPI-5.0 §7.3.1.
func (g *Group) Size() int { return g.core().Size() }

// Rank returns the rank of this process; Undefined if it is not in the group, or g is nil. MPI-5.0 §7.3.1.
func (g *Group) Rank() int { return g.core().Rank() }

// Incl returns the group of the processes with these ranks, in this order. It fails with ErrRank if a rank is out of
// range or listed twice. MPI-5.0 §7.3.2.
func (g *Group) Incl(ranks ...int) (*Group, error) { return group(g.core().Incl(ranks...)) }

// Excl returns the group of all processes except those with these ranks, in the order of g. MPI-5.0 §7.3.2.
func (g *Group) Excl(ranks ...int) (*Group, error) { return group(g.core().Excl(ranks...)) }

// Range is the list of ranks First, First+Stride, First+2*Stride and so on that do not pass Last. The stride may be negative, but
// not 0, and must lead from First to Last. MPI-5.0 §7.3.2.
type Range struct{ First, Last, Stride int }

// coreRanges returns a copy of the ranges, as core takes them.
func coreRanges(ranges []Range) []core.Range {
	all := make([]core.Range, len(ranges))
	for i, r := range ranges {
		all[i] = core.Range(r)
	}
	return all
}

// RangeIncl is Incl for the ranks of the ranges, one range after the other. It fails with ErrArg if a stride does not lead from
// the first rank to the last one. MPI-5.0 §7.3.2.
func (g *Group) RangeIncl(ranges ...Range) (*Group, error) {
	return group(g.core().RangeIncl(coreRanges(ranges)...))
}

// RangeExcl is Excl for the ranks of the ranges. MPI-5.0 §7.3.2.
func (g *Group) RangeExcl(ranges ...Range) (*Group, error) {
	return group(g.core().RangeExcl(coreRanges(ranges)...))
}

// Union returns the processes of g, followed by those of h that are not in g. Groups of different sessions cannot be
// combined: Union fails with ErrGroup. MPI-5.0 §7.3.2.
func (g *Group) Union(h *Group) (*Group, error) { return group(g.core().Union(h.core())) }

// Intersection returns the processes of g that are also in h, in the order of g. MPI-5.0 §7.3.2.
func (g *Group) Intersection(h *Group) (*Group, error) { return group(g.core().Intersection(h.core())) }

// Difference returns the processes of g that are not in h, in the order of g. MPI-5.0 §7.3.2.
func (g *Group) Difference(h *Group) (*Group, error) { return group(g.core().Difference(h.core())) }

// Ranks returns the ranks in another group of the processes that have these ranks in g; Undefined for those that are
// not in it. MPI-5.0 §7.3.1, as MPI_Group_translate_ranks.
func (g *Group) Ranks(ranks []int, in *Group) ([]int, error) {
	return public2(g.core().Ranks(ranks, in.core()))
}

// Equal reports whether two groups have the same processes in the same order, even if they belong to different
// sessions. MPI-5.0 §7.3.1.
func (g *Group) Equal(h *Group) bool { return g.core().Equal(h.core()) }

// Comparison is the result of comparing two groups or two communicators. MPI-5.0 §7.3.1.
type Comparison int32

// The comparisons, with the values of the MPI-5.0 ABI (§20.3).
const (
	Ident     Comparison = core.Ident     // the same processes in the same order; of communicators, the same one
	Congruent Comparison = core.Congruent // communicators of the same processes in the same order, with different contexts
	Similar   Comparison = core.Similar   // the same processes in another order
	Unequal   Comparison = core.Unequal   // none of these
)

// String returns "ident", "congruent", "similar" or "unequal".
func (x Comparison) String() string {
	switch x {
	case Ident:
		return "ident"
	case Congruent:
		return "congruent"
	case Similar:
		return "similar"
	case Unequal:
		return "unequal"
	}
	return fmt.Sprintf("Comparison(%d)", int32(x))
}

// Compare returns Ident for groups of the same processes in the same order, Similar if only the order differs, and otherwise
// Unequal. The groups may belong to different sessions. It fails with ErrGroup if one is nil. MPI-5.0 §7.3.1.
func (g *Group) Compare(h *Group) (Comparison, error) {
	x, err := g.core().Compare(h.core())
	return Comparison(x), public(err)
}

// Group returns the group of the communicator; for an intercommunicator the local group; nil if c is nil. MPI-5.0 §7.3.2.
func (c *Comm) Group() *Group { return (*Group)(c.core().Group()) }
