package datatype

import (
	"fmt"
	"sort"

	"github.com/ibrun/ibrun/fabric"
)

// A transport takes and stores the bytes of a buffer.
var (
	_ fabric.Source = (*Buffer)(nil)
	_ fabric.Sink   = (*Buffer)(nil)
)

// Buffer is a number of elements of a committed type in memory, all of them within bounds. It is a small value that is made for
// each message. The packed bytes of a buffer are those of its elements in order, without gaps. The zero Buffer is empty.
type Buffer struct {
	prog   *program
	data   *layout
	mem    []byte
	origin int64
	count  int64
	size   int64
}

// Buffer returns count elements in memory. The first element has displacement 0 at mem[origin], and the data of all must be
// in mem; the origin need not be. Errors wrap ErrNotCommitted, ErrNegativeCount, ErrOverflow and ErrBounds.
func (t *Type) Buffer(mem []byte, origin, count int64) (Buffer, error) {
	p := t.program.Load()
	switch {
	case p == nil:
		return Buffer{}, fmt.Errorf("%v elements: %w: call Commit first", count, ErrNotCommitted)
	case count < 0:
		return Buffer{}, fmt.Errorf("%d elements: %w", count, ErrNegativeCount)
	}
	b := Buffer{prog: p, data: t.data, mem: mem, origin: origin, count: count}
	if count == 0 || p.size == 0 {
		b.count = 0
		return b, nil
	}
	var c checked
	last := c.mul(count-1, p.extent)
	lo, hi := c.add(origin, p.lo), c.add(c.add(origin, p.hi), last) // extents are not negative
	b.size = c.mul(count, p.size)
	switch {
	case c.overflow:
		return Buffer{}, fmt.Errorf("%d elements of extent %d: size or position: %w", count, p.extent, ErrOverflow)
	case lo < 0 || hi > int64(len(mem)):
		return Buffer{}, fmt.Errorf("%d elements need the bytes [%d, %d) of a memory of %d: %w", count, lo, hi, len(mem), ErrBounds)
	}
	return b, nil
}

// Numbers returns b as numbers of a kind, whose size divides the length of b. It is Type.Buffer without
// what need not be checked: numbers are one block.
func Numbers(b []byte, k Kind) Buffer {
	t, n := basic[k], int64(len(b))
	return Buffer{prog: t.program.Load(), data: t.data, mem: b, count: n / t.ub, size: n}
}

// Size returns the number of packed bytes.
func (b *Buffer) Size() int64 { return b.size }

// Kind returns the kind of the elements if all are of one kind, and 0 otherwise.
func (b *Buffer) Kind() Kind {
	if b.size == 0 {
		return 0
	}
	return b.data.kind
}

// ElementKind is Kind that is known also if there are no elements. It is 0 for the zero Buffer.
func (b *Buffer) ElementKind() Kind {
	if b.data == nil {
		return 0
	}
	return b.data.kind
}

// SignatureOf returns the signature of the basic elements in the first n packed bytes, as Type.SignatureOf does.
func (b *Buffer) SignatureOf(n int64) (s Signature, ok bool) {
	if b.size == 0 || n < 0 || n > b.size {
		return Signature{}, n == 0
	}
	return b.data.signatureOf(n)
}

// BlockLen returns the mean length of the contiguous blocks of memory, 0 of an empty buffer. If it is large it may be better
// to send the blocks than to pack them.
func (b *Buffer) BlockLen() int64 {
	if b.size == 0 {
		return 0
	}
	if b.prog.top.kind == opBlock {
		return b.size
	}
	return b.prog.size / max(1, b.prog.top.blocks)
}

// Contiguous returns the memory of the elements if it is one block in the order of the packed bytes; then nothing needs
// to be packed.
func (b *Buffer) Contiguous() (mem []byte, ok bool) {
	if b.size == 0 {
		return nil, true
	}
	if top := &b.prog.top; top.kind != opBlock && (b.count != 1 || top.n != 1 || top.body.op.kind != opBlock) {
		return nil, false
	}
	off := b.origin + b.prog.off
	return b.mem[off : off+b.size : off+b.size], true
}

// Span returns the memory from the first byte of an element to the last, gaps included, as is to be registered with a device.
func (b *Buffer) Span() []byte {
	if b.size == 0 {
		return nil
	}
	lo, hi := b.origin+b.prog.lo, b.origin+b.prog.hi+(b.count-1)*b.prog.extent
	return b.mem[lo:hi:hi]
}

// Pack copies packed bytes from the elements to dst, beginning with byte from. It returns how many, which is less than len(dst)
// at the end of the elements. from is at most Size.
func (b *Buffer) Pack(dst []byte, from int64) int {
	n := b.clip(from, len(dst))
	if n > 0 {
		b.move(dst[:n], from, false)
	}
	return n
}

// Unpack copies packed bytes from src to the elements, beginning with byte from. It returns how many, which is less than
// len(src) at the end of the elements. from is at most Size. If entries overlap, any of the values may be stored.
func (b *Buffer) Unpack(src []byte, from int64) int {
	n := b.clip(from, len(src))
	if n > 0 {
		b.move(src[:n], from, true)
	}
	return n
}

// clip returns how many of n bytes there are from byte from on.
func (b *Buffer) clip(from int64, n int) int {
	if from < 0 || from >= b.size {
		return 0
	}
	return int(min(int64(n), b.size-from))
}

func (b *Buffer) move(packed []byte, from int64, unpack bool) {
	p := b.prog
	top, base := &p.top, b.origin+p.off
	m := newMover(b.mem, packed, p.hi-p.lo+(b.count-1)*p.extent, unpack)
	if top.kind == opBlock {
		m.block(base+from, 0, int64(len(packed)))
	} else {
		m.runLoop(top, base, from, from+int64(len(packed)), 0)
	}
}

// Blocks fills out with the blocks of memory that hold the packed bytes from byte from up to byte to, which it reduces to
// Size. It returns the number of blocks, and the byte at which the next call continues: to, unless out was too short. Blocks
// that follow each other in memory are one block. Their offsets are relative to displacement 0 of the first element.
func (b *Buffer) Blocks(out []fabric.Block, from, to int64) (n int, next int64) {
	to = min(to, b.size)
	if from < 0 || from >= to {
		return 0, from
	}
	l := lister{out: out, rest: to - from}
	if top := &b.prog.top; top.kind == opBlock {
		l.add(b.prog.off+from, to-from)
	} else {
		l.runLoop(top, b.count*top.n, b.prog.off, from)
	}
	return l.n, to - l.rest
}

// Slice returns the memory of a block of this buffer.
func (b *Buffer) Slice(s fabric.Block) []byte {
	off := b.origin + s.Off
	return b.mem[off : off+s.Len : off+s.Len]
}

// lister collects blocks.
type lister struct {
	out  []fabric.Block
	n    int
	rest int64 // bytes that are still to be listed
}

// add appends a block, or what is still to be listed of it. It returns false if that was all, or if there is no room.
func (l *lister) add(off, n int64) bool {
	n = min(n, l.rest)
	switch {
	case l.n > 0 && l.out[l.n-1].Off+l.out[l.n-1].Len == off:
		l.out[l.n-1].Len += n
	case l.n == len(l.out):
		return false
	default:
		l.out[l.n] = fabric.Block{Off: off, Len: n}
		l.n++
	}
	l.rest -= n
	return l.rest > 0
}

// run lists the blocks of an op at base, from its packed byte from on. It returns false if nothing more is to be listed.
func (l *lister) run(o *op, base, from int64) bool {
	switch o.kind {
	case opBlock:
		return l.add(base+from, o.size-from)
	case opLoop:
		return l.runLoop(o, o.n, base, from)
	case opGather:
		i := from / o.blockLen
		from -= i * o.blockLen
		for ; i < int64(len(o.offs)); i++ {
			if !l.add(base+o.offs[i]+from, o.blockLen-from) {
				return false
			}
			from = 0
		}
	case opBlocks:
		i := o.find(from)
		from -= o.at[i]
		for ; i < len(o.offs); i++ {
			if !l.add(base+o.offs[i]+from, o.at[i+1]-o.at[i]-from) {
				return false
			}
			from = 0
		}
	case opList:
		i := o.find(from)
		from -= o.at[i]
		for ; i < len(o.items); i++ {
			if !l.run(o.items[i].op, base+o.items[i].off, from) {
				return false
			}
			from = 0
		}
	}
	return true
}

// runLoop is run for n iterations of a loop.
func (l *lister) runLoop(o *op, n, base, from int64) bool {
	b := o.body
	i := from / b.op.size
	from -= i * b.op.size
	for ; i < n; i++ {
		at := base + i*o.stride + b.off
		if b.op.kind == opBlock {
			if !l.add(at+from, b.op.size-from) {
				return false
			}
		} else if !l.run(b.op, at, from) {
			return false
		}
		from = 0
	}
	return true
}

// find returns the item in which a packed byte is.
func (o *op) find(from int64) int {
	if from == 0 {
		return 0
	}
	return sort.Search(len(o.at), func(i int) bool { return o.at[i] > from }) - 1
}
