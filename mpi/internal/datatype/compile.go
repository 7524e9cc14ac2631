package datatype

import (
	"math"
	"slices"
	"sync/atomic"
)

// program is what a type is compiled to: a tree of copies. The same tree packs, unpacks, and lists the blocks of memory.
type program struct {
	size, extent int64 // of one element
	lo, hi       int64 // bounds of the data of one element
	// top copies one element. It is a block or a loop that grows with the number of elements, see elements.
	top op
	off int64 // where top is
	// Elements of up to disjoint counts have no overlap, and those from overlapping counts on have; 0 is unknown.
	disjoint, overlapping atomic.Int64
}

// opKind says what an op copies.
type opKind uint8

const (
	opBlock  opKind = iota // one block of memory
	opLoop                 // the same several times, in equal distances
	opGather               // blocks of one length anywhere
	opBlocks               // blocks anywhere
	opList                 // several ops
)

// op copies data between scattered memory and packed bytes. It does not change after compilation, and may occur several
// times in a tree.
type op struct {
	kind   opKind
	tiled  bool  // of a loop: copy field by field, see mover.tiles
	size   int64 // packed bytes
	blocks int64 // blocks of memory, at most MaxInt64
	lo, hi int64 // the memory that it touches, relative to where it is

	n, stride int64 // of a loop
	body      placed
	leaves    []leaf // of a loop: the blocks of its body, if they are few

	blockLen int64   // of opGather
	offs     []int64 // of opGather and opBlocks
	at       []int64 // of opBlocks and opList: where each begins in the packed bytes; opBlocks has the end as well
	items    []placed
}

// placed is an op and where it is in memory.
type placed struct {
	off int64
	op  *op
}

// leaf is a block of the body of a loop: len bytes, at off in memory and at at in the packed bytes.
type leaf struct{ off, at, len int64 }

const (
	// maxLeaves is the most blocks of a body that is copied without looking at its ops.
	maxLeaves = 16
	// tileStride is the greatest distance of elements that are copied field by field. Beyond it the fields of
	// successive elements do not share cache lines, and powers of two would meet in one set of the cache.
	tileStride = 1024
	// flattenLimit bounds the blocks into which the lists in a list are dissolved, since a small type may stand for very many.
	flattenLimit = 1 << 14
	// minRun is the least number of equal ops in equal distances within a list that become a loop.
	minRun = 8
)

func compile(t *Type) *program {
	p := &program{extent: t.ub - t.lb}
	if t.data == nil {
		return p
	}
	p.size, p.lo, p.hi = t.data.size, t.data.lo, t.data.hi
	c := compiler{done: map[*layout]placed{}}
	root := c.lower(t.data)
	p.off, p.top = root.off, *root.op
	block := root.op.kind == opBlock && root.op.size == p.extent
	loop := root.op.kind == opLoop && root.op.n*root.op.stride == p.extent
	if !block && !loop {
		p.top = *newLoop(1, p.extent, placed{0, root.op}).op
	}
	return p
}

// elements returns the op that copies count elements, which lie at p.off. The size of all was checked.
// Buffers use top without this copy of it, and count its iterations themselves.
func (p *program) elements(count int64) op {
	o := p.top
	if count != 1 {
		o.size *= count
		o.n *= count
	}
	return o
}

// compiler lowers layouts. Layouts that occur several times are lowered once.
type compiler struct{ done map[*layout]placed }

func (c *compiler) lower(l *layout) placed {
	if p, ok := c.done[l]; ok {
		return p
	}
	var p placed
	switch {
	case l.of != nil:
		p = repeated(l.n, l.stride, c.lower(l.of))
	case l.parts != nil:
		p = c.sequence(l.parts)
	default:
		p = placed{0, newBlock(l.size)}
	}
	c.done[l] = p
	return p
}

func newBlock(size int64) *op { return &op{kind: opBlock, size: size, blocks: 1, hi: size} }

// repeated returns n copies of body. It joins adjacent blocks and loops that continue each other.
func repeated(n, stride int64, body placed) placed {
	switch b := body.op; {
	case n == 1:
		return body
	case b.kind == opBlock && b.size == stride:
		return placed{body.off, newBlock(n * stride)}
	case b.kind == opLoop && b.n*b.stride == stride:
		return placed{body.off, newLoop(n*b.n, b.stride, b.body).op}
	}
	return newLoop(n, stride, body)
}

// newLoop returns a loop, without simplifying it.
func newLoop(n, stride int64, body placed) placed {
	b := body.op
	last := (n - 1) * stride
	o := &op{kind: opLoop, size: n * b.size, blocks: mulSaturated(n, b.blocks), n: n, stride: stride, body: placed{0, b},
		lo: b.lo + min(0, last), hi: b.hi + max(0, last)}
	if leaves := appendLeaves(nil, placed{0, b}, 0); len(leaves) > 1 && len(leaves) <= maxLeaves {
		o.leaves = leaves
		o.tiled = -tileStride <= stride && stride <= tileStride
	}
	return placed{body.off, o}
}

// appendLeaves appends the blocks of an op, which begins at at in the packed bytes. If there are more than maxLeaves the
// result has more, but not all.
func appendLeaves(ls []leaf, p placed, at int64) []leaf {
	o := p.op
	switch o.kind {
	case opBlock:
		return append(ls, leaf{p.off, at, o.size})
	case opLoop:
		for i := range o.n {
			if ls = appendLeaves(ls, placed{p.off + i*o.stride + o.body.off, o.body.op}, at+i*o.body.op.size); len(ls) > maxLeaves {
				break
			}
		}
	case opGather:
		for i, off := range o.offs[:min(len(o.offs), maxLeaves+1)] {
			ls = append(ls, leaf{p.off + off, at + int64(i)*o.blockLen, o.blockLen})
		}
	case opBlocks:
		for i, off := range o.offs[:min(len(o.offs), maxLeaves+1)] {
			ls = append(ls, leaf{p.off + off, at + o.at[i], o.at[i+1] - o.at[i]})
		}
	case opList:
		for i, it := range o.items {
			if ls = appendLeaves(ls, placed{p.off + it.off, it.op}, at+o.at[i]); len(ls) > maxLeaves {
				break
			}
		}
	}
	return ls
}

// item is an op in a list that is being simplified. A block is a size without an op, since there may be very many.
type item struct {
	off, size int64
	op        *op
}

func newItem(p placed) item {
	if p.op.kind == opBlock {
		return item{p.off, p.op.size, nil}
	}
	return item{p.off, p.op.size, p.op}
}

func (it item) placed() placed {
	if it.op == nil {
		return placed{it.off, newBlock(it.size)}
	}
	return placed{it.off, it.op}
}

// same reports whether two items are alike but for their place.
func (it item) same(other item) bool { return it.size == other.size && sameOp(it.op, other.op) }

func sameOp(a, b *op) bool {
	switch {
	case a == b:
		return true
	case a == nil || b == nil || a.kind != b.kind || a.size != b.size:
		return false
	case a.kind == opBlock:
		return true
	}
	return a.kind == opLoop && a.n == b.n && a.stride == b.stride && a.body.off == b.body.off && sameOp(a.body.op, b.body.op)
}

// sequence lowers parts in a row.
func (c *compiler) sequence(parts []part) placed {
	items := make([]item, len(parts))
	for i, p := range parts {
		it := newItem(c.lower(p.of))
		it.off += p.off
		items[i] = it
	}
	items = joinRuns(joinBlocks(items))
	flat, limit := make([]item, 0, len(items)), len(items)+flattenLimit
	for i, it := range items {
		flat = flatten(flat, it, limit-(len(items)-i))
	}
	items = joinBlocks(flat)
	for n := len(items) + 1; len(items) < n; { // a second pass finds loops of loops
		n = len(items)
		items = joinRuns(items)
	}
	return list(groupBlocks(items))
}

// flatten appends the items of a list, or the item itself if there would be more than limit.
func flatten(items []item, it item, limit int) []item {
	o := it.op
	switch {
	case o == nil || o.kind == opLoop || len(items)+len(o.offs)+len(o.items) > limit:
		return append(items, it)
	case o.kind == opGather:
		for _, off := range o.offs {
			items = append(items, item{it.off + off, o.blockLen, nil})
		}
	case o.kind == opBlocks:
		for i, off := range o.offs {
			items = append(items, item{it.off + off, o.at[i+1] - o.at[i], nil})
		}
	default:
		for _, p := range o.items {
			sub := newItem(p)
			sub.off += it.off
			items = append(items, sub)
		}
	}
	return items
}

// joinBlocks joins blocks that follow each other in memory. It reuses the slice.
func joinBlocks(items []item) []item {
	n := 0
	for _, it := range items {
		if n > 0 && it.op == nil && items[n-1].op == nil && items[n-1].off+items[n-1].size == it.off {
			items[n-1].size += it.size
			continue
		}
		items[n] = it
		n++
	}
	return items[:n]
}

// joinRuns makes loops of equal items in equal distances. It reuses the slice.
func joinRuns(items []item) []item {
	n := 0
	for i := 0; i < len(items); {
		end := i + 1
		for end < len(items) && items[end].same(items[i]) && (end == i+1 ||
			items[end].off-items[end-1].off == items[i+1].off-items[i].off) {
			end++
		}
		if run := end - i; run >= minRun || run > 1 && run == len(items) {
			items[n] = newItem(repeated(int64(run), items[i+1].off-items[i].off, items[i].placed()))
			i = end
		} else {
			items[n] = items[i]
			i++
		}
		n++
	}
	return items[:n]
}

// groupBlocks replaces successive blocks by one op.
func groupBlocks(items []item) []item {
	n := 0
	for i := 0; i < len(items); n++ {
		end := i
		for end < len(items) && items[end].op == nil {
			end++
		}
		if end-i < 2 {
			items[n] = items[i]
			i++
			continue
		}
		items[n] = newItem(placed{0, newBlocks(items[i:end])})
		i = end
	}
	return items[:n]
}

// newBlocks returns an op for several blocks.
func newBlocks(items []item) *op {
	o := &op{kind: opGather, blocks: int64(len(items)), offs: make([]int64, len(items)), lo: math.MaxInt64, hi: math.MinInt64}
	for i, it := range items {
		o.offs[i] = it.off
		o.size += it.size
		o.lo, o.hi = min(o.lo, it.off), max(o.hi, it.off+it.size)
	}
	o.blockLen = items[0].size
	if !slices.ContainsFunc(items, func(it item) bool { return it.size != o.blockLen }) {
		return o
	}
	o.kind, o.blockLen, o.at = opBlocks, 0, make([]int64, len(items)+1)
	for i, it := range items {
		o.at[i+1] = o.at[i] + it.size
	}
	return o
}

// list returns the items in a row.
func list(items []item) placed {
	if len(items) == 1 {
		return items[0].placed()
	}
	o := &op{kind: opList, items: make([]placed, len(items)), at: make([]int64, len(items)), lo: math.MaxInt64, hi: math.MinInt64}
	for i, it := range items {
		p := it.placed()
		o.items[i], o.at[i] = p, o.size
		o.size += it.size
		o.blocks = addSaturated(o.blocks, p.op.blocks)
		o.lo, o.hi = min(o.lo, it.off+p.op.lo), max(o.hi, it.off+p.op.hi)
	}
	return placed{0, o}
}

func addSaturated(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func mulSaturated(a, b int64) int64 {
	var c checked
	if p := c.mul(a, b); !c.overflow {
		return p
	}
	return math.MaxInt64
}
