package topology

import (
	"cmp"
	"slices"
)

// Map returns an order of the processes: rank r becomes the process order[r], an index of places. The order costs at no level
// more than the present one, in which rank r is the process r; if none is better, Map returns that. It looks for the lowest
// cost between nodes first, then between NUMA nodes, caches and cores. The result depends on the arguments only. There are as
// many places as ranks. grid is the grid whose links these are; nil if they are of a graph.
func Map(links *Links, grid *Cart, places []Place) []int {
	present := make([]int, len(places))
	for r := range present {
		present[r] = r
	}
	m := newMapper(links, grid, places)
	best, bound := present, links.Cost(places, present)
	least := bound
	if bound == (Cost{}) || len(m.root.parts) == 0 {
		return best // nothing to gain: one place for all, or none crosses a level
	}
	for _, only := range []bool{false, true} {
		m.onlyRefine = only
		order := m.run()
		if c := links.Cost(places, order); c.noWorse(bound) && c.compare(least) < 0 {
			best, least = order, c
		}
	}
	return best
}

// domain is a part of the hardware: the positions lo to hi-1 of the processes in the order of their places.
type domain struct {
	lo, hi int
	parts  []*domain // on the next level that divides it
}

// mapper assigns ranks to positions. The processes are sorted by place, so that every domain has consecutive positions.
type mapper struct {
	links   *Links
	coords  [][]int // by rank; nil unless the links are those of a grid
	grid    *Cart
	process []int // by position
	root    *domain
	// onlyRefine makes the mapper start from the present order everywhere, instead of from the best of several.
	onlyRefine bool

	ranks []int32 // by position: the result
	// part is the index of the part that a rank is assigned to, among those of the domain being divided; -1 for ranks elsewhere.
	part []int32
	// toPart is scratch memory: the weight between one rank and each part.
	toPart     []int64
	candidates []candidate // scratch memory of grown
	work       int         // links that may still be visited by swaps
}

// maxWork bounds the links that swaps visit in one run: a few hundred milliseconds.
const maxWork = 1 << 26

func newMapper(links *Links, grid *Cart, places []Place) *mapper {
	m := &mapper{links: links, grid: grid, part: make([]int32, len(places)), toPart: make([]int64, len(places)),
		candidates: make([]candidate, len(places))}
	sorted := numbered(places)
	for i := range places {
		m.process = append(m.process, i)
		m.part[i] = -1
	}
	slices.SortFunc(m.process, func(a, b int) int {
		return cmp.Or(slices.Compare(sorted[a][:], sorted[b][:]), cmp.Compare(a, b))
	})
	m.root = m.divide(sorted, 0, len(places), Node)
	if grid != nil {
		for r := range places {
			m.coords = append(m.coords, grid.Coords(r))
		}
	}
	return m
}

// numbered returns the places with new numbers on each level, by the first process there: processes keep their order as far as
// their places allow it.
func numbered(places []Place) []Place {
	all := make([]Place, len(places))
	for level := range Levels {
		numbers := map[int32]int32{}
		for i := range places {
			n, known := numbers[places[i][level]]
			if !known {
				n = int32(len(numbers))
				numbers[places[i][level]] = n
			}
			all[i][level] = n
		}
	}
	return all
}

// divide returns the domain of the positions lo to hi-1, which share all levels above this one.
func (m *mapper) divide(places []Place, lo, hi, level int) *domain {
	d := &domain{lo: lo, hi: hi}
	for ; level < Levels && len(d.parts) < 2; level++ {
		d.parts = nil
		for first := lo; first < hi; {
			n := places[m.process[first]][level]
			end := first
			for end < hi && places[m.process[end]][level] == n {
				end++
			}
			d.parts = append(d.parts, m.divide(places, first, end, level+1))
			first = end
		}
	}
	if len(d.parts) < 2 {
		d.parts = nil
	}
	return d
}

// run assigns the ranks, and returns the process of each.
func (m *mapper) run() []int {
	m.work = maxWork
	m.ranks = make([]int32, len(m.process))
	for i, p := range m.process {
		m.ranks[i] = int32(p) // the present order
	}
	m.assign(m.root)
	order := make([]int, len(m.process))
	for i, r := range m.ranks {
		order[r] = m.process[i]
	}
	return order
}

// assign divides the ranks of a domain among its parts, and then those of each part.
func (m *mapper) assign(d *domain) {
	if d.parts == nil {
		slices.Sort(m.ranks[d.lo:d.hi])
		return
	}
	before := slices.Clone(m.ranks[d.lo:d.hi])
	least, best := m.improve(d, before)
	if !m.onlyRefine {
		for _, start := range [][]int32{m.blocks(d, before), m.bisected(d, before), m.grown(d, before)} {
			if start == nil {
				continue
			}
			if cut, ranks := m.improve(d, start); cut < least {
				least, best = cut, ranks
			}
		}
	}
	copy(m.ranks[d.lo:d.hi], best)
	for _, p := range d.parts {
		m.assign(p)
	}
}

// improve refines an assignment of the ranks of a domain by swaps, and returns it with the weight between its parts.
func (m *mapper) improve(d *domain, start []int32) (cut int64, ranks []int32) {
	ranks = slices.Clone(start)
	for k, p := range d.parts {
		for _, r := range ranks[p.lo-d.lo : p.hi-d.lo] {
			m.part[r] = int32(k)
		}
	}
	m.swap(d, ranks)
	for _, r := range ranks {
		to, weights := m.links.of(r)
		for i, s := range to {
			if p := m.part[s]; p >= 0 && p != m.part[r] {
				cut += weights[i]
			}
		}
	}
	for _, r := range ranks {
		m.part[r] = -1
	}
	return cut / 2, ranks
}
