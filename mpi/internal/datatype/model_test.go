package datatype

import (
	"math/rand/v2"
	"slices"
)

// model is a type map written out, element by element, as MPI-5.0 §5.1 defines it. It is what types are compared with.
type model struct {
	entries []entry
	marked  bool // has markers of bounds
	lb, ub  int64
}

type entry struct {
	kind Kind
	disp int64
}

func (e entry) end() int64 { return e.disp + int64(e.kind.Size()) }

// copies returns the entries and markers of m at each displacement in turn.
func (m model) copies(displs []int64) model {
	var out model
	for _, d := range displs {
		out = out.and(m, d)
	}
	return out.bound()
}

// and returns the entries of m and those of other displaced by d. Without markers the bounds are not yet known.
func (m model) and(other model, d int64) model {
	for _, e := range other.entries {
		m.entries = append(m.entries, entry{e.kind, e.disp + d})
	}
	switch {
	case other.marked && m.marked:
		m.lb, m.ub = min(m.lb, other.lb+d), max(m.ub, other.ub+d)
	case other.marked:
		m.marked, m.lb, m.ub = true, other.lb+d, other.ub+d
	}
	return m
}

// trueBounds returns the bounds of the data.
func (m model) trueBounds() (lo, hi int64) {
	for i, e := range m.entries {
		if i == 0 {
			lo, hi = e.disp, e.end()
		}
		lo, hi = min(lo, e.disp), max(hi, e.end())
	}
	return lo, hi
}

// bound sets the bounds if there are no markers.
func (m model) bound() model {
	if m.marked {
		return m
	}
	m.lb, m.ub = m.trueBounds()
	align := int64(1)
	for _, e := range m.entries {
		align = max(align, int64(kindTable[e.kind].align))
	}
	for (m.ub-m.lb)%align != 0 {
		m.ub++
	}
	return m
}

func (m model) extent() int64 { return m.ub - m.lb }

// blocks returns the displacements of the copies in blocks, the starts of which are in bytes.
func (m model) blocks(lens, starts []int64) []int64 {
	var ds []int64
	for i, n := range lens {
		for j := range n {
			ds = append(ds, starts[i]+j*m.extent())
		}
	}
	return ds
}

// array returns the elements of a global array that own selects, in the order of memory.
func (m model) array(sizes []int64, order Order, own func(dim int, i int64) bool) model {
	total := int64(1)
	for _, n := range sizes {
		total *= n
	}
	var ds []int64
	for at := range total {
		rest, mine := at, true
		for _, d := range dimensions(len(sizes), order) {
			mine = mine && own(d, rest%sizes[d])
			rest /= sizes[d]
		}
		if mine {
			ds = append(ds, at*m.extent())
		}
	}
	m.marked = false
	out := m.copies(ds)
	out.marked, out.lb, out.ub = true, 0, total*m.extent()
	return out
}

// generator makes random types and their models.
type generator struct {
	r   *rand.Rand
	max int // entries of a model
}

func (g *generator) n(limit int) int64 { return int64(g.r.IntN(limit)) }

func (g *generator) list(n int64, limit int, from int64) []int64 {
	ns := make([]int64, n)
	for i := range ns {
		ns[i] = g.n(limit) + from
	}
	return ns
}

// typ returns a type of the given depth of nesting. err is that of the constructor.
func (g *generator) typ(depth int) (t *Type, m model, err error) {
	if depth == 0 {
		k := Kind(1 + g.r.IntN(Kinds-1))
		return OfKind(k), model{entries: []entry{{k, 0}}}.bound(), nil
	}
	t, m, err = g.typ(depth - 1)
	if err != nil {
		return nil, m, err
	}
	old, oldModel := t, m
	switch g.r.IntN(12) {
	case 0:
		n := g.n(5)
		t, err = Contiguous(n, old)
		m = m.copies(m.blocks([]int64{n}, []int64{0}))
	case 1, 2, 3:
		t, m, err = g.regular(old, m)
	case 4, 5, 6:
		t, m, err = g.scattered(old, m)
	case 7:
		t, m, err = g.structure(old, m, depth)
	case 8:
		t, m, err = g.subarray(old, m)
	case 9:
		t, m, err = g.darray(old, m)
	case 10:
		lb, extent := g.n(40)-20, g.n(60)
		t, err = Resized(lb, extent, old)
		m.marked, m.lb, m.ub = true, lb, lb+extent
	default:
		t, err = Dup(old)
	}
	if err == nil && len(m.entries) > g.max {
		return old, oldModel, nil
	}
	return t, m, err
}

func (g *generator) regular(old *Type, m model) (*Type, model, error) {
	n, l, stride := g.n(6), g.n(5), g.n(12)-4
	starts, unit := make([]int64, n), int64(1)
	inBytes := g.r.IntN(3) == 0
	if inBytes {
		stride *= 1 + g.n(20)
	} else {
		unit = m.extent()
	}
	for i := range starts {
		starts[i] = int64(i) * stride * unit
	}
	m = m.copies(m.blocks(slices.Repeat([]int64{l}, int(n)), starts))
	if inBytes {
		t, err := HVector(n, l, stride, old)
		return t, m, err
	}
	t, err := Vector(n, l, stride, old)
	return t, m, err
}

func (g *generator) scattered(old *Type, m model) (*Type, model, error) {
	n := g.n(14)
	lens, displs := g.list(n, 4, 0), g.list(n, 40, -10)
	if g.r.IntN(2) == 0 {
		slices.Sort(displs)
	}
	if g.r.IntN(4) == 0 { // equal distances
		for i := range displs {
			displs[i] = int64(i) * 5
		}
	}
	bytes := make([]int64, n)
	for i, d := range displs {
		bytes[i] = d * m.extent()
	}
	same := slices.Repeat([]int64{g.n(4)}, int(n))
	one := int64(2)
	if n > 0 {
		one = same[0]
	}
	var t *Type
	var err error
	switch g.r.IntN(4) {
	case 0:
		t, err = Indexed(lens, displs, old)
		return t, m.copies(m.blocks(lens, bytes)), err
	case 1:
		t, err = HIndexed(lens, displs, old)
		return t, m.copies(m.blocks(lens, displs)), err
	case 2:
		t, err = IndexedBlock(one, displs, old)
		return t, m.copies(m.blocks(same, bytes)), err
	}
	t, err = HIndexedBlock(one, displs, old)
	return t, m.copies(m.blocks(same, displs)), err
}

func (g *generator) structure(old *Type, m model, depth int) (*Type, model, error) {
	n := g.n(5)
	lens, displs := g.list(n, 4, 0), g.list(n, 80, -10)
	types := make([]*Type, n)
	var out model
	for i := range types {
		types[i] = old
		part := m
		if g.r.IntN(3) > 0 {
			var err error
			if types[i], part, err = g.typ(g.r.IntN(depth)); err != nil {
				return nil, m, err
			}
		}
		for _, d := range part.blocks(lens[i:i+1], displs[i:i+1]) {
			out = out.and(part, d)
		}
	}
	t, err := Struct(lens, displs, types)
	return t, out.bound(), err
}

func (g *generator) subarray(old *Type, m model) (*Type, model, error) {
	n := 1 + g.n(3)
	sizes := g.list(n, 5, 1)
	subsizes, starts := make([]int64, n), make([]int64, n)
	for i, s := range sizes {
		subsizes[i] = 1 + g.n(int(s))
		starts[i] = g.n(int(s - subsizes[i] + 1))
	}
	order := OrderC + Order(g.r.IntN(2))*3
	t, err := Subarray(sizes, subsizes, starts, order, old)
	return t, m.array(sizes, order, func(d int, i int64) bool { return starts[d] <= i && i < starts[d]+subsizes[d] }), err
}

func (g *generator) darray(old *Type, m model) (*Type, model, error) {
	n := 1 + g.n(3)
	sizes, psizes, dargs := g.list(n, 7, 1), g.list(n, 3, 1), make([]int64, n)
	used := make([]int64, n) // lengths of blocks
	distribs := make([]Distribution, n)
	grid := int64(1)
	for i := range sizes {
		distribs[i] = DistributeNone + Distribution(g.r.IntN(3))
		dargs[i], used[i] = DefaultArgument, 1
		switch distribs[i] {
		case DistributeNone:
			psizes[i], used[i] = 1, sizes[i]
		case DistributeBlock:
			used[i] = (sizes[i] + psizes[i] - 1) / psizes[i]
		}
		if distribs[i] != DistributeNone && g.r.IntN(2) == 0 {
			used[i] += g.n(3)
			dargs[i] = used[i]
		}
		grid *= psizes[i]
	}
	rank := g.n(int(grid))
	coords := make([]int64, n)
	for i, rest := n-1, rank; i >= 0; i-- {
		coords[i], rest = rest%psizes[i], rest/psizes[i]
	}
	order := OrderC + Order(g.r.IntN(2))*3
	t, err := Darray(grid, rank, sizes, distribs, dargs, psizes, order, old)
	return t, m.array(sizes, order, func(d int, i int64) bool { return i/used[d]%psizes[d] == coords[d] }), err
}
