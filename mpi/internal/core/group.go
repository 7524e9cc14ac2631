package core

import (
	"errors"
	"fmt"
	"slices"
)

// Group is an ordered set of processes. Communicators are created from groups, in a session or in
// the World Model. A Group never changes and needs not be freed. Any goroutine may use it. The zero
// Group is empty.
type Group struct {
	proc    *Process // nil in the zero Group
	session *Session // nil for the World Model
	peers   []int32  // process by rank
}

// Size returns the number of processes; 0 if g is nil.
func (g *Group) Size() int {
	if g == nil {
		return 0
	}
	return len(g.peers)
}

// Rank returns the rank of this process; Undefined if it is not in the group, or g is nil.
func (g *Group) Rank() int {
	if g == nil || g.proc == nil {
		return Undefined
	}
	return rankIn(g.peers, int32(g.proc.boot.Rank))
}

func rankIn(peers []int32, n int32) int {
	if i := slices.Index(peers, n); i >= 0 {
		return i
	}
	return Undefined
}

// Incl returns the group of the processes with these ranks, in this order.
func (g *Group) Incl(ranks ...int) (*Group, error) {
	return g.derive(g.selectPeers("Group.Incl", ranks))
}

// Excl returns the group of all processes except those with these ranks, in the order of g.
func (g *Group) Excl(ranks ...int) (*Group, error) {
	return g.others(g.selectPeers("Group.Excl", ranks))
}

// Range is the list of ranks First, First+Stride, First+2*Stride and so on that do not pass Last.
// The stride may be negative.
type Range struct{ First, Last, Stride int }

// RangeIncl is Incl for the ranks of the ranges, one range after the other.
func (g *Group) RangeIncl(ranges ...Range) (*Group, error) {
	return g.derive(g.selectRanges("Group.RangeIncl", ranges))
}

// RangeExcl is Excl for the ranks of the ranges.
func (g *Group) RangeExcl(ranges ...Range) (*Group, error) {
	return g.others(g.selectRanges("Group.RangeExcl", ranges))
}

// selectRanges returns the processes with the ranks of the ranges, which must be different.
func (g *Group) selectRanges(op string, ranges []Range) ([]int32, error) {
	if g == nil {
		return nil, newError(op, ErrGroup, errNoGroup)
	}
	var ranks []int
	for _, r := range ranges {
		if r.Stride == 0 || r.First < r.Last && r.Stride < 0 || r.First > r.Last && r.Stride > 0 {
			return nil, newError(op, ErrArg, fmt.Errorf("the stride %d does not lead from rank %d to rank %d", r.Stride, r.First, r.Last))
		}
		// No more ranks than the group has, and one that is out of range, are listed: ranges may be
		// long.
		for n := r.First; len(ranks) <= len(g.peers); n += r.Stride {
			ranks = append(ranks, n)
			if n < 0 || n >= len(g.peers) || r.Stride > 0 && r.Stride > r.Last-n || r.Stride < 0 && n+r.Stride < r.Last {
				break
			}
		}
	}
	return g.selectPeers(op, ranks)
}

// selectPeers returns the processes with these ranks, which must be different.
func (g *Group) selectPeers(op string, ranks []int) ([]int32, error) {
	if g == nil {
		return nil, newError(op, ErrGroup, errNoGroup)
	}
	peers := make([]int32, len(ranks))
	// A rank that is listed twice is an error in the standard (MPI-5.0 §7.3.2), since a group has
	// each process once.
	seen := map[int]bool{}
	for i, r := range ranks {
		if r < 0 || r >= len(g.peers) || seen[r] {
			return nil, newError(op, ErrRank,
				fmt.Errorf("rank %d is listed twice or is out of range: the group has %d ranks", r, len(g.peers)))
		}
		seen[r] = true
		peers[i] = g.peers[r]
	}
	return peers, nil
}

// derive returns a group of the same session, unless its processes could not be found.
func (g *Group) derive(peers []int32, err error) (*Group, error) {
	if err != nil {
		return nil, err
	}
	return &Group{g.proc, g.session, peers}, nil
}

// others is derive for the processes of g that are not in a list.
func (g *Group) others(list []int32, err error) (*Group, error) {
	if err != nil {
		return nil, err
	}
	listed := rankSet(list)
	return g.derive(without(g.peers, func(n int32) bool { return listed[n] }), nil)
}

// Union returns the processes of g, followed by those of h that are not in g.
func (g *Group) Union(h *Group) (*Group, error) {
	return combine("Group.Union", g, h, func(inG, _ map[int32]bool) []int32 {
		return slices.Concat(g.peers, without(h.peers, func(n int32) bool { return inG[n] }))
	})
}

// Intersection returns the processes of g that are also in h, in the order of g.
func (g *Group) Intersection(h *Group) (*Group, error) {
	return combine("Group.Intersection", g, h, func(_, inH map[int32]bool) []int32 {
		return without(g.peers, func(n int32) bool { return !inH[n] })
	})
}

// Difference returns the processes of g that are not in h, in the order of g.
func (g *Group) Difference(h *Group) (*Group, error) {
	return combine("Group.Difference", g, h, func(_, inH map[int32]bool) []int32 {
		return without(g.peers, func(n int32) bool { return inH[n] })
	})
}

// combine returns the group of the processes that f selects from the sets of g and h.
func combine(op string, g, h *Group, f func(inG, inH map[int32]bool) []int32) (*Group, error) {
	if err := g.checkSession(op, h); err != nil {
		return nil, err
	}
	// The zero Group has no process and no session, so the other one says to which the result
	// belongs.
	of := g
	if g.proc == nil {
		of = h
	}
	return of.derive(f(rankSet(g.peers), rankSet(h.peers)), nil)
}

func rankSet(peers []int32) map[int32]bool {
	in := make(map[int32]bool, len(peers))
	for _, n := range peers {
		in[n] = true
	}
	return in
}

// without returns the processes for which out is false.
func without(peers []int32, out func(int32) bool) []int32 {
	return slices.DeleteFunc(slices.Clone(peers), out)
}

// checkSession returns an error if a group is nil or the second one belongs to another session. The
// zero Group belongs to every session.
func (g *Group) checkSession(op string, h *Group) error {
	switch {
	case g == nil || h == nil:
		return newError(op, ErrGroup, errNoGroup)
	case g.proc != nil && h.proc != nil && (g.proc != h.proc || g.session != h.session):
		return newError(op, ErrGroup, errors.New("the groups belong to different sessions"))
	}
	return nil
}

var errNoGroup = errors.New("the group is nil")

// Ranks returns the ranks in another group of the processes that have these ranks in g; Undefined
// for those that are not in it.
func (g *Group) Ranks(ranks []int, in *Group) ([]int, error) {
	const op = "Group.Ranks"
	if err := g.checkSession(op, in); err != nil {
		return nil, err
	}
	out := make([]int, len(ranks))
	for i, r := range ranks {
		switch {
		case r == ProcNull:
			out[i] = ProcNull
		case r < 0 || r >= len(g.peers):
			return nil, newError(op, ErrRank, fmt.Errorf("rank %d is out of range: the group has %d ranks", r, len(g.peers)))
		default:
			out[i] = rankIn(in.peers, g.peers[r])
		}
	}
	return out, nil
}

// Equal reports whether two groups have the same processes in the same order, even if they belong
// to different sessions. A nil group is equal to no other one.
func (g *Group) Equal(h *Group) bool {
	if g == nil || h == nil {
		return g == h
	}
	return slices.Equal(g.peers, h.peers)
}

// Comparison is the result of comparing two groups or two communicators.
type Comparison int32

// The comparisons, with the values of the MPI-5.0 ABI (§20.3).
const (
	Ident     = 201
	Congruent = 202
	Similar   = 203
	Unequal   = 204
)

// Compare returns Ident for groups of the same processes in the same order, Similar if only the
// order differs, and otherwise Unequal.
func (g *Group) Compare(h *Group) (Comparison, error) {
	if g == nil || h == nil {
		return Unequal, newError("Group.Compare", ErrGroup, errNoGroup)
	}
	return comparePeers(g.peers, h.peers), nil
}

func comparePeers(a, b []int32) Comparison {
	switch {
	case slices.Equal(a, b):
		return Ident
	case slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))):
		return Similar
	}
	return Unequal
}

// Group returns the group of the communicator; for an intercommunicator the local group.
func (c *Comm) Group() *Group {
	switch {
	case c.isNone():
		return nil
	case c.localGroup != nil:
		return &Group{c.proc, c.session, c.localGroup}
	}
	return &Group{c.proc, c.session, c.peers}
}
