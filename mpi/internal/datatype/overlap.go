package datatype

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/ibrun/ibrun/fabric"
)

// overlapLimit is the most blocks of a type that are compared one by one.
const overlapLimit = 1 << 20

// CheckOverlap returns an error that wraps ErrOverlap if the entries of count elements overlap, which a type that receives
// data must not. The type is committed. Regular types and types with ordered displacements take a time that does not depend
// on count; others are compared block by block up to a million blocks, and accepted beyond. MPI-5.0 §3.2.4, §5.1.11.
func (t *Type) CheckOverlap(count int64) error {
	p := t.program.Load()
	if p == nil {
		return fmt.Errorf("%v elements: %w: call Commit first", count, ErrNotCommitted)
	}
	return p.checkOverlap(count)
}

// CheckOverlap is Type.CheckOverlap for the elements of the buffer.
func (b *Buffer) CheckOverlap() error {
	if b.size == 0 {
		return nil
	}
	return b.prog.checkOverlap(b.count)
}

func (p *program) checkOverlap(count int64) error {
	if p.size == 0 || count <= 0 || count <= p.disjoint.Load() {
		return nil
	}
	if n := p.overlapping.Load(); n == 0 || count < n {
		if p.isDisjoint(count) {
			storeMax(&p.disjoint, count)
			return nil
		}
		p.overlapping.Store(count)
	}
	return fmt.Errorf("receive %d elements: %w", count, ErrOverlap)
}

// storeMax makes v at least n. Counts that are lost because two goroutines store at once are computed again.
func storeMax(v interface {
	Load() int64
	Store(int64)
}, n int64) {
	if v.Load() < n {
		v.Store(n)
	}
}

// isDisjoint reports whether no two entries of count elements share a byte.
func (p *program) isDisjoint(count int64) bool {
	known := map[*op]bool{}
	if root := p.elements(1); p.hi-p.lo <= p.extent && root.disjoint(known) {
		storeMax(&p.disjoint, math.MaxInt64) // elements follow each other
		return true
	}
	var c checked
	c.mul(count, p.size)
	last := c.mul(count-1, p.extent)
	if c.overflow {
		return false // more data than there are addresses
	}
	all := p.elements(count)
	switch {
	case all.size-last > p.hi-p.lo: // more data than memory
		return false
	case all.disjoint(known):
		return true
	}
	if all.blocks = mulSaturated(count, p.top.blocks); all.blocks > overlapLimit {
		return true
	}
	segs := make([]fabric.Block, all.blocks)
	l := lister{out: segs, rest: all.size}
	l.run(&all, p.off, 0)
	segs = segs[:l.n]
	slices.SortFunc(segs, func(a, b fabric.Block) int { return cmp.Compare(a.Off, b.Off) })
	for i := 1; i < len(segs); i++ {
		if segs[i].Off < segs[i-1].Off+segs[i-1].Len {
			return false
		}
	}
	return true
}

// disjoint reports whether the blocks of an op are seen to be disjoint from the spans of its parts. If not, they may still be.
func (o *op) disjoint(known map[*op]bool) bool {
	if d, ok := known[o]; ok {
		return d
	}
	d := true
	switch o.kind {
	case opLoop:
		d = o.disjointLoops(known)
	case opGather, opBlocks, opList:
		d = o.disjointParts(known)
	}
	known[o] = d
	return d
}

// disjointLoops is disjoint for a nest of loops. The order of loops does not matter: from the smallest stride to the
// greatest, each must exceed the span of those before.
func (o *op) disjointLoops(known map[*op]bool) bool {
	var loops []*op
	for o.kind == opLoop {
		loops = append(loops, o)
		o = o.body.op
	}
	if !o.disjoint(known) {
		return false
	}
	slices.SortFunc(loops, func(a, b *op) int { return cmp.Compare(magnitude(a.stride), magnitude(b.stride)) })
	span := uint64(o.hi - o.lo)
	for _, l := range loops {
		if l.n == 1 {
			continue
		}
		if magnitude(l.stride) < span {
			return false
		}
		span += magnitude(l.stride) * uint64(l.n-1)
	}
	return true
}

// disjointParts is disjoint for ops in a row, which may be in any order in memory.
func (o *op) disjointParts(known map[*op]bool) bool {
	spans := make([]fabric.Block, 0, len(o.offs)+len(o.items))
	for i, off := range o.offs {
		n := o.blockLen
		if o.kind == opBlocks {
			n = o.at[i+1] - o.at[i]
		}
		spans = append(spans, fabric.Block{Off: off, Len: n})
	}
	for _, it := range o.items {
		if !it.op.disjoint(known) {
			return false
		}
		spans = append(spans, fabric.Block{Off: it.off + it.op.lo, Len: it.op.hi - it.op.lo})
	}
	byOff := func(a, b fabric.Block) int { return cmp.Compare(a.Off, b.Off) }
	if !slices.IsSortedFunc(spans, byOff) {
		slices.SortFunc(spans, byOff)
	}
	for i := 1; i < len(spans); i++ {
		if spans[i].Off < spans[i-1].Off+spans[i-1].Len {
			return false
		}
	}
	return true
}
