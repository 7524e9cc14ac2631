package topology

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
)

// The functions of this file return assignments from which improve starts: the ranks of a domain in another order, of which each
// part of the domain gets a run. They return nil if the method does not apply.

// blocks divides a box of a grid into equal boxes, one for each part, of the shape with the fewest links between them.
func (m *mapper) blocks(d *domain, ranks []int32) []int32 {
	size := d.parts[0].hi - d.parts[0].lo
	for _, p := range d.parts {
		if p.hi-p.lo != size {
			return nil
		}
	}
	low, extent, isBox := m.box(ranks)
	if !isBox {
		return nil
	}
	shape := m.bestShape(extent, size)
	if shape == nil {
		return nil
	}
	block := func(r int32) (n int) {
		for i, x := range m.coords[r] {
			n = n*(extent[i]/shape[i]) + (x-low[i])/shape[i]
		}
		return n
	}
	sorted := slices.Clone(ranks)
	slices.SortFunc(sorted, func(a, b int32) int { return cmp.Or(cmp.Compare(block(a), block(b)), cmp.Compare(a, b)) })
	return sorted
}

// box returns the smallest coordinates of ranks, and how many coordinates there are in each dimension. It reports whether the
// ranks are all those of that box.
func (m *mapper) box(ranks []int32) (low, extent []int, isBox bool) {
	if m.coords == nil {
		return nil, nil, false
	}
	low = slices.Clone(m.coords[ranks[0]])
	high := slices.Clone(low)
	for _, r := range ranks {
		for i, x := range m.coords[r] {
			low[i], high[i] = min(low[i], x), max(high[i], x)
		}
	}
	size := 1
	for i := range low {
		extent = append(extent, high[i]-low[i]+1)
		size *= extent[i]
	}
	return low, extent, size == len(ranks)
}

// bestShape returns the shape of boxes of size ranks that divide a box with the fewest links between them; nil if none does.
func (m *mapper) bestShape(extent []int, size int) (best []int) {
	least := math.MaxInt
	shape := make([]int, len(extent))
	var search func(dim, left, links int)
	search = func(dim, left, links int) {
		if dim == len(extent) {
			if left == 1 && links < least {
				least, best = links, slices.Clone(shape)
			}
			return
		}
		n, ranks := extent[dim], 1
		for _, x := range extent {
			ranks *= x
		}
		for s := 1; s <= n && s <= left; s++ {
			if n%s != 0 || left%s != 0 {
				continue
			}
			borders := n/s - 1
			if m.grid.periodic[dim] && n == m.grid.dims[dim] && borders > 0 {
				borders++
			}
			shape[dim] = s
			search(dim+1, left/s, links+borders*(ranks/n))
		}
	}
	search(0, size, 0)
	return best
}

// bisected divides the ranks of a grid by planes: the parts into two halves, and the ranks along the dimension in which they
// extend most, then each half in the same way.
func (m *mapper) bisected(d *domain, ranks []int32) []int32 {
	if m.coords == nil {
		return nil
	}
	all := slices.Clone(ranks)
	var bisect func(parts []*domain, ranks []int32)
	bisect = func(parts []*domain, ranks []int32) {
		if len(parts) < 2 {
			return
		}
		_, extent, _ := m.box(ranks)
		longest := slices.Index(extent, slices.Max(extent))
		slices.SortFunc(ranks, func(a, b int32) int {
			return cmp.Or(cmp.Compare(m.coords[a][longest], m.coords[b][longest]), cmp.Compare(a, b))
		})
		half := len(parts) / 2
		n := parts[half].lo - parts[0].lo
		bisect(parts[:half], ranks[:n])
		bisect(parts[half:], ranks[n:])
	}
	bisect(d.parts, all)
	return all
}

// grown fills one part after the other with ranks that have the strongest links to those that it has already.
func (m *mapper) grown(d *domain, ranks []int32) []int32 {
	g := &growth{links: m.links, state: m.candidates}
	for _, r := range ranks {
		g.state[r] = candidate{open: true}
	}
	for _, r := range ranks {
		to, weights := m.links.of(r)
		for i, s := range to {
			if g.state[s].open {
				g.state[r].rest += weights[i]
			}
		}
	}
	var all []int32
	for _, p := range d.parts {
		for range p.hi - p.lo {
			r := g.next(ranks)
			all = append(all, r)
			g.take(r)
		}
		for _, o := range g.frontier { // every candidate with links to the part is in an offer
			g.state[o.rank].inside = 0
		}
		g.frontier = g.frontier[:0]
	}
	return all
}

// growth is the state of grown.
type growth struct {
	links    *Links
	state    []candidate // by rank
	frontier frontier
}

// candidate is what growth knows about a rank.
type candidate struct {
	open   bool  // it is to be divided, and has no part yet
	inside int64 // weight of its links to the part that grows
	rest   int64 // weight of its links to ranks without a part
}

// offer is a rank with the weights that it had when it was put into the frontier. It is out of date if they have changed.
type offer struct {
	rank         int32
	inside, rest int64
}

// frontier is a heap of the ranks with links to the part that grows: first those with the most weight to it, less the weight
// to ranks without a part.
type frontier []offer

// Len returns the number of candidates.
func (f frontier) Len() int { return len(f) }

// Less reports whether candidate i is before j.
func (f frontier) Less(i, j int) bool {
	a, b := f[i], f[j]
	return cmp.Or(cmp.Compare(b.inside-b.rest, a.inside-a.rest), cmp.Compare(b.inside, a.inside),
		cmp.Compare(a.rank, b.rank)) < 0
}

// Swap exchanges two candidates.
func (f frontier) Swap(i, j int) { f[i], f[j] = f[j], f[i] }

// Push adds an offer.
func (f *frontier) Push(x any) { *f = append(*f, x.(offer)) }

// Pop removes the last offer.
func (f *frontier) Pop() any {
	last := (*f)[len(*f)-1]
	*f = (*f)[:len(*f)-1]
	return last
}

// next returns the rank that joins the part: of the frontier, or else the one with the least links to the rest.
func (g *growth) next(ranks []int32) int32 {
	for len(g.frontier) > 0 {
		o := heap.Pop(&g.frontier).(offer)
		if g.state[o.rank] == (candidate{true, o.inside, o.rest}) {
			return o.rank
		}
	}
	best := int32(-1)
	for _, r := range ranks {
		if c := &g.state[r]; c.open && (best < 0 || c.rest < g.state[best].rest) {
			best = r
		}
	}
	return best
}

// take gives a rank to the part that grows.
func (g *growth) take(r int32) {
	g.state[r].open = false
	to, weights := g.links.of(r)
	for i, s := range to {
		if c := &g.state[s]; c.open {
			c.inside += weights[i]
			c.rest -= weights[i]
			heap.Push(&g.frontier, offer{s, c.inside, c.rest})
		}
	}
}
