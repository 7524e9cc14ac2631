package datatype

import (
	"slices"
	"sort"
)

// layout is a sequence of basic elements and where they are: a type map without its markers of bounds. It is a tree whose nodes
// may be shared, and never changes. A node is one of three:
//
//   - a basic element at displacement 0: of == nil, parts == nil
//   - n copies of a layout, the next one displaced by stride: of != nil
//   - several layouts in a row, each displaced by its own offset: parts != nil
//
// A layout has at least one element; nil stands for none.
type layout struct {
	kind      Kind // of all elements, 0 if they differ
	n, stride int64
	of        *layout
	parts     []part

	size     int64 // bytes of all elements
	external int64 // the same in external32 data
	lo, hi   int64 // lowest displacement of an element, and the highest one of an end
	align    int64 // greatest alignment of an element
	sum      mapSum
}

// part is a layout in a sequence.
type part struct {
	off int64 // displacement
	at  int64 // bytes of the parts before
	of  *layout
}

// newLeaf returns the layout of one element at displacement 0.
func newLeaf(k Kind) *layout {
	size := int64(k.Size())
	return &layout{kind: k, size: size, external: int64(k.ExternalSize()), hi: size, align: int64(kindTable[k].align),
		sum: leafSum(k)}
}

// repeat returns n copies of l.
func (c *checked) repeat(n, stride int64, l *layout) *layout {
	if n == 0 || l == nil {
		return nil
	}
	if n == 1 {
		return l
	}
	last := c.mul(n-1, stride)
	r := &layout{kind: l.kind, n: n, stride: stride, of: l, align: l.align,
		size: c.mul(n, l.size), external: c.mul(n, l.external),
		lo: c.add(l.lo, min(0, last)), hi: c.add(l.hi, max(0, last))}
	if !c.overflow {
		r.sum = l.sum.repeat(n, stride)
	}
	return r
}

// sequence returns the parts that are not empty in a row. It fills the fields at.
func (c *checked) sequence(parts []part) *layout {
	parts = slices.DeleteFunc(parts, func(p part) bool { return p.of == nil })
	if len(parts) == 0 || len(parts) == 1 && parts[0].off == 0 {
		if len(parts) == 1 {
			return parts[0].of
		}
		return nil
	}
	s := &layout{kind: parts[0].of.kind, parts: parts, sum: emptySum(),
		lo: c.add(parts[0].off, parts[0].of.lo), hi: c.add(parts[0].off, parts[0].of.hi)}
	for i := range parts {
		p := &parts[i]
		p.at = s.size
		if p.of.kind != s.kind {
			s.kind = 0
		}
		s.size = c.add(s.size, p.of.size)
		s.external = c.add(s.external, p.of.external)
		s.lo = min(s.lo, c.add(p.off, p.of.lo))
		s.hi = max(s.hi, c.add(p.off, p.of.hi))
		s.align = max(s.align, p.of.align)
		if c.overflow {
			return nil
		}
		s.sum = s.sum.concat(p.of.sum.shift(p.off))
	}
	return s
}

// runs calls yield with the kinds of the elements in order, and how many of each follow one another. It does not join runs.
// It reports whether yield always returned true.
func (l *layout) runs(yield func(Kind, int64) bool) bool {
	switch {
	case l.kind != 0:
		return yield(l.kind, l.size/int64(l.kind.Size()))
	case l.of != nil:
		for range l.n {
			if !l.of.runs(yield) {
				return false
			}
		}
	}
	for i := range l.parts {
		if !l.parts[i].of.runs(yield) {
			return false
		}
	}
	return true
}

// prefix returns the sum of the elements in the first n bytes. ok is false if n is inside an element.
func (l *layout) prefix(n int64) (s mapSum, ok bool) {
	switch {
	case n == 0:
		return emptySum(), true
	case n >= l.size:
		return l.sum, n == l.size
	case l.of != nil:
		whole := n / l.of.size
		s, ok = l.of.prefix(n - whole*l.of.size)
		return l.of.sum.repeat(whole, l.stride).concat(s.shiftTimes(whole, l.stride)), ok
	case l.parts == nil:
		return emptySum(), false
	}
	end := sort.Search(len(l.parts), func(i int) bool { return l.parts[i].at > n }) - 1
	s = emptySum()
	for _, p := range l.parts[:end] {
		s = s.concat(p.of.sum.shift(p.off))
	}
	rest, ok := l.parts[end].of.prefix(n - l.parts[end].at)
	return s.concat(rest.shift(l.parts[end].off)), ok
}
