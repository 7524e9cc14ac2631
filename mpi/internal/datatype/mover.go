package datatype

// tileBytes is the memory in which a loop is copied field by field: less than the first-level cache.
const tileBytes = 16 << 10

// A buffer is a block or a loop, so its copies begin in block or runLoop. The number of iterations follows from the range of
// bytes.

// run copies the packed bytes [from, to) of an op, of which the first is at at in the packed bytes of the mover. base is
// where the op is in memory.
func (m *mover) run(o *op, base, from, to, at int64) {
	if from == 0 && to == o.size {
		m.full(o, base, at)
		return
	}
	switch o.kind {
	case opBlock:
		m.block(base+from, at, to-from)
	case opLoop:
		m.runLoop(o, base, from, to, at)
	case opGather:
		m.runGather(o, base, from, to, at)
	case opBlocks:
		for i := o.find(from); from < to; i++ {
			end := min(to, o.at[i+1])
			m.block(base+o.offs[i]+from-o.at[i], at, end-from)
			at += end - from
			from = end
		}
	case opList:
		for i := o.find(from); from < to; i++ {
			it := o.items[i]
			end := min(to, o.at[i]+it.op.size)
			m.run(it.op, base+it.off, from-o.at[i], end-o.at[i], at)
			at += end - from
			from = end
		}
	}
}

// runLoop is run for a loop: the rest of an iteration, whole iterations, and the beginning of one.
func (m *mover) runLoop(o *op, base, from, to, at int64) {
	b := o.body
	size := b.op.size
	i := from / size
	if rest := from - i*size; rest != 0 {
		end := min(size, rest+to-from)
		m.run(b.op, base+i*o.stride+b.off, rest, end, at)
		at += end - rest
		from += end - rest
		i++
	}
	if n := (to - from) / size; n > 0 {
		m.loop(o, base+i*o.stride, n, at)
		at += n * size
		from += n * size
		i += n
	}
	if from < to {
		m.run(b.op, base+i*o.stride+b.off, 0, to-from, at)
	}
}

// runGather is run for blocks of one length.
func (m *mover) runGather(o *op, base, from, to, at int64) {
	i := from / o.blockLen
	if rest := from - i*o.blockLen; rest != 0 {
		n := min(o.blockLen-rest, to-from)
		m.block(base+o.offs[i]+rest, at, n)
		at += n
		from += n
		i++
	}
	n := (to - from) / o.blockLen
	m.gather(base, o.offs[i:i+n], at, o.blockLen)
	at += n * o.blockLen
	from += n * o.blockLen
	if from < to {
		m.block(base+o.offs[i+n], at, to-from)
	}
}

// full copies all bytes of an op.
func (m *mover) full(o *op, base, at int64) {
	switch o.kind {
	case opBlock:
		m.block(base, at, o.size)
	case opLoop:
		m.loop(o, base, o.n, at)
	case opGather:
		m.gather(base, o.offs, at, o.blockLen)
	case opBlocks:
		for i, off := range o.offs {
			m.block(base+off, at+o.at[i], o.at[i+1]-o.at[i])
		}
	case opList:
		for i, it := range o.items {
			m.full(it.op, base+it.off, at+o.at[i])
		}
	}
}

// loop copies n iterations of a loop, the first of which is at base.
func (m *mover) loop(o *op, base, n, at int64) {
	b := o.body.op
	base += o.body.off
	switch {
	case b.kind == opBlock:
		m.nested(nest{n1: 1, n0: n, mem0: o.stride, packed0: b.size, len: b.size}, base, at)
	case o.tiled && n >= 4:
		m.tiles(o, base, n, at)
	case b.kind == opLoop && b.body.op.kind == opBlock:
		inner := b.body.op.size
		m.nested(nest{n1: n, mem1: o.stride, packed1: b.size, n0: b.n, mem0: b.stride, packed0: inner, len: inner},
			base+b.body.off, at)
	case o.leaves != nil:
		for i := range n {
			for _, l := range o.leaves {
				m.block(base+i*o.stride+l.off, at+i*b.size+l.at, l.len)
			}
		}
	default:
		for i := range n {
			m.full(b, base+i*o.stride, at+i*b.size)
		}
	}
}

// tiles copies n iterations of a loop whose body is a few blocks: the first block of many iterations, then the second, and so
// on, so that each pass is a loop over blocks of one length. The memory of such a tile stays in the first-level cache.
func (m *mover) tiles(o *op, base, n, at int64) {
	size := o.body.op.size
	step := max(4, tileBytes/max(1, o.stride, -o.stride))
	for ; n > 0; n -= step {
		k := min(n, step)
		for _, l := range o.leaves {
			m.nested(nest{n1: 1, n0: k, mem0: o.stride, packed0: size, len: l.len}, base+l.off, at+l.at)
		}
		base += k * o.stride
		at += k * size
	}
}
