// Package blocks has memory for the payloads of unexpected messages: blocks of a few sizes that are
// reused, so that a steady flow of messages allocates nothing.
//
// The caller holds the lock of the engine.
package blocks

import "math/bits"

// Pool has free blocks. The zero Pool has none.
type Pool struct {
	free  [16][][]byte // by power of two, from smallest bytes
	idle  int          // bytes of free blocks
	limit int          // of idle: above it, blocks of other sizes are dropped when one is needed
}

// smallest is the length of the shortest blocks, in bytes.
const smallest = 64

// SetLimit sets how many bytes may be in free blocks while a block of another size is needed.
func (p *Pool) SetLimit(bytes int) { p.limit = bytes }

// class returns the number of the class of blocks of n bytes, which is not 0.
func class(n int) int { return max(0, bits.Len(uint(n-1))-6) }

// Get returns a block of n bytes; nil for 0.
func (p *Pool) Get(n int) []byte {
	if n == 0 {
		return nil
	}
	c := class(n)
	if c >= len(p.free) {
		return make([]byte, n)
	}
	if k := len(p.free[c]); k > 0 {
		b := p.free[c][k-1]
		p.free[c] = p.free[c][:k-1]
		p.idle -= cap(b)
		return b[:n]
	}
	if p.idle > p.limit { // all free blocks have other sizes
		p.free, p.idle = [16][][]byte{}, 0
	}
	return make([]byte, n, smallest<<c)
}

// Put returns a block to the pool. The pool keeps the blocks of a store that was full once, since
// it may fill up again. If they were left to the garbage collector each time, the heap would grow
// far beyond the bound.
func (p *Pool) Put(b []byte) {
	if b == nil {
		return
	}
	if c := class(cap(b)); c < len(p.free) && cap(b) == smallest<<c {
		p.free[c] = append(p.free[c], b)
		p.idle += cap(b)
	}
}
