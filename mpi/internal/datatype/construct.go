package datatype

import "slices"

// The constructors copy their slices. They return types that are not committed. Counts may be 0, and displacements and strides
// negative. Errors wrap ErrNoType, ErrNegativeCount, ErrOverflow, ErrArgument.

// Contiguous returns count copies of t in a row. MPI-5.0 §5.1.2.
func Contiguous(count int64, t *Type) (*Type, error) {
	return strided(Contents{Combiner: CombinerContiguous, Ints: []int64{count}, Types: []*Type{t}}, count, 1, 0)
}

// Vector returns count blocks of blockLen copies of t, whose starts are stride extents of t apart. MPI-5.0 §5.1.2.
func Vector(count, blockLen, stride int64, t *Type) (*Type, error) {
	def := Contents{Combiner: CombinerVector, Ints: []int64{count, blockLen, stride}, Types: []*Type{t}}
	if t == nil {
		return nil, argumentError(def.Combiner.String(), ErrNoType, "old type")
	}
	var c checked
	bytes := c.mul(stride, t.ub-t.lb)
	if c.overflow && count > 1 && blockLen > 0 {
		return nil, argumentError(def.Combiner.String(), ErrOverflow, "stride %d", stride)
	}
	return strided(def, count, blockLen, bytes)
}

// HVector is Vector with a stride in bytes. MPI-5.0 §5.1.2.
func HVector(count, blockLen, stride int64, t *Type) (*Type, error) {
	return strided(Contents{Combiner: CombinerHVector, Ints: []int64{count, blockLen}, Addrs: []int64{stride}, Types: []*Type{t}},
		count, blockLen, stride)
}

// strided returns count blocks of blockLen copies of the type of def. For a contiguous type, which has blocks of one copy, the
// stride is the extent.
func strided(def Contents, count, blockLen, stride int64) (*Type, error) {
	name, t := def.Combiner.String(), def.Types[0]
	switch {
	case t == nil:
		return nil, argumentError(name, ErrNoType, "old type")
	case count < 0:
		return nil, argumentError(name, ErrNegativeCount, "count %d", count)
	case blockLen < 0:
		return nil, argumentError(name, ErrNegativeCount, "block length %d", blockLen)
	}
	var c checked
	extent := t.ub - t.lb
	if def.Combiner == CombinerContiguous {
		stride = extent
	}
	data := c.repeat(count, stride, c.repeat(blockLen, extent, t.data))
	var b bounds
	if count > 0 {
		last := c.mul(count-1, stride)
		b.copies(&c, 0, blockLen, extent, t)
		b.copies(&c, last, blockLen, extent, t)
	}
	return c.newBounded(name, data, b, def)
}

// Indexed returns blocks of copies of t: block i has blockLens[i] of them and begins displs[i] extents of t from the origin.
// MPI-5.0 §5.1.2.
func Indexed(blockLens, displs []int64, t *Type) (*Type, error) {
	def := Contents{Combiner: CombinerIndexed, Ints: slices.Concat([]int64{int64(len(blockLens))}, blockLens, displs),
		Types: []*Type{t}}
	return scattered(def, blockLens, displs, true)
}

// HIndexed is Indexed with displacements in bytes. MPI-5.0 §5.1.2.
func HIndexed(blockLens, displs []int64, t *Type) (*Type, error) {
	def := Contents{Combiner: CombinerHIndexed, Ints: slices.Concat([]int64{int64(len(blockLens))}, blockLens),
		Addrs: slices.Clone(displs), Types: []*Type{t}}
	return scattered(def, blockLens, displs, false)
}

// IndexedBlock is Indexed with blocks that all have blockLen copies. MPI-5.0 §5.1.2.
func IndexedBlock(blockLen int64, displs []int64, t *Type) (*Type, error) {
	def := Contents{Combiner: CombinerIndexedBlock, Ints: slices.Concat([]int64{int64(len(displs)), blockLen}, displs),
		Types: []*Type{t}}
	return scattered(def, []int64{blockLen}, displs, true)
}

// HIndexedBlock is IndexedBlock with displacements in bytes. MPI-5.0 §5.1.2.
func HIndexedBlock(blockLen int64, displs []int64, t *Type) (*Type, error) {
	def := Contents{Combiner: CombinerHIndexedBlock, Ints: []int64{int64(len(displs)), blockLen}, Addrs: slices.Clone(displs),
		Types: []*Type{t}}
	return scattered(def, []int64{blockLen}, displs, false)
}

// scattered returns blocks of copies of the type of def. A single block length is that of all blocks. inExtents says that
// displacements count extents of the type.
func scattered(def Contents, blockLens, displs []int64, inExtents bool) (*Type, error) {
	name, t := def.Combiner.String(), def.Types[0]
	one := def.Combiner == CombinerIndexedBlock || def.Combiner == CombinerHIndexedBlock
	switch {
	case t == nil:
		return nil, argumentError(name, ErrNoType, "old type")
	case !one && len(blockLens) != len(displs):
		return nil, argumentError(name, ErrArgument, "%d block lengths and %d displacements", len(blockLens), len(displs))
	case one && blockLens[0] < 0:
		return nil, argumentError(name, ErrNegativeCount, "block length %d", blockLens[0])
	}
	var c checked
	var b bounds
	extent, unit := t.ub-t.lb, int64(1)
	if inExtents {
		unit = extent
	}
	parts := make([]part, 0, len(displs))
	blockLen, block := int64(0), (*layout)(nil) // the previous block, which the next one often is again
	for i, d := range displs {
		n := blockLens[0]
		if !one {
			n = blockLens[i]
		}
		if n < 0 {
			return nil, argumentError(name, ErrNegativeCount, "block length %d of block %d", n, i)
		}
		if n == 0 {
			continue
		}
		if n != blockLen {
			blockLen, block = n, c.repeat(n, extent, t.data)
		}
		off := c.mul(d, unit)
		b.copies(&c, off, n, extent, t)
		parts = append(parts, part{off: off, of: block})
	}
	return c.newBounded(name, c.sequence(parts), b, def)
}

// Struct returns blocks of copies of several types: block i has blockLens[i] copies of types[i] and begins displs[i] bytes
// from the origin. MPI-5.0 §5.1.2.
func Struct(blockLens, displs []int64, types []*Type) (*Type, error) {
	def := Contents{Combiner: CombinerStruct, Ints: slices.Concat([]int64{int64(len(blockLens))}, blockLens),
		Addrs: slices.Clone(displs), Types: slices.Clone(types)}
	name := def.Combiner.String()
	if len(blockLens) != len(displs) || len(blockLens) != len(types) {
		return nil, argumentError(name, ErrArgument, "%d block lengths, %d displacements and %d types", len(blockLens), len(displs),
			len(types))
	}
	var c checked
	var b bounds
	parts := make([]part, 0, len(types))
	for i, t := range types {
		switch n := blockLens[i]; {
		case t == nil:
			return nil, argumentError(name, ErrNoType, "type of block %d", i)
		case n < 0:
			return nil, argumentError(name, ErrNegativeCount, "block length %d of block %d", n, i)
		case n > 0:
			b.copies(&c, displs[i], n, t.ub-t.lb, t)
			parts = append(parts, part{off: displs[i], of: c.repeat(n, t.ub-t.lb, t.data)})
		}
	}
	return c.newBounded(name, c.sequence(parts), b, def)
}

// Resized returns t with another lower bound and extent. extent must not be negative. MPI-5.0 §5.1.7.
func Resized(lb, extent int64, t *Type) (*Type, error) {
	def := Contents{Combiner: CombinerResized, Addrs: []int64{lb, extent}, Types: []*Type{t}}
	switch {
	case t == nil:
		return nil, argumentError(def.Combiner.String(), ErrNoType, "old type")
	case extent < 0:
		return nil, argumentError(def.Combiner.String(), ErrNegativeExtent, "extent %d", extent)
	}
	var c checked
	return c.newBounded(def.Combiner.String(), t.data, bounds{any: true, lb: lb, ub: c.add(lb, extent)}, def)
}

// Dup returns a copy of t, which is committed if t is. MPI-5.0 §5.1.10.
func Dup(t *Type) (*Type, error) {
	if t == nil {
		return nil, argumentError(CombinerDup.String(), ErrNoType, "old type")
	}
	d := &Type{data: t.data, lb: t.lb, ub: t.ub, explicit: t.explicit,
		contents: Contents{Combiner: CombinerDup, Types: []*Type{t}}}
	d.program.Store(t.program.Load())
	return d, nil
}
