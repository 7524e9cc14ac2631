package coll

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"

	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/mpi/internal/reduction"
)

// What collectives are to do, in the simplest way: over the buffers of all ranks at once.

// add is a sum that commutes, affine one that does not: it composes functions x -> a*x + b of 32-bit integers,
// given as a and b. Neither rounds, so that what algorithms compute can be held against the model to the bit.
func add() *Operation {
	k, _ := reduction.Lookup(reduction.Sum, datatype.Uint32)
	return &Operation{Kernel: k, ElemSize: 4, Commutative: true}
}

func affine() *Operation {
	return &Operation{ElemSize: 8, Kernel: reduction.User(func(dst, src []byte) {
		if len(dst) != len(src) || len(dst)%8 != 0 {
			panic("operands are cut within an element")
		}
		for ; len(dst) > 0; dst, src = dst[8:], src[8:] {
			a, b := binary.LittleEndian.Uint32(dst), binary.LittleEndian.Uint32(dst[4:])
			c, d := binary.LittleEndian.Uint32(src), binary.LittleEndian.Uint32(src[4:])
			binary.LittleEndian.PutUint32(dst, a*c)
			binary.LittleEndian.PutUint32(dst[4:], b*c+d)
		}
	})}
}

// random is a buffer of n bytes per rank.
func random(r *rand.Rand, ranks, n int) [][]byte {
	bufs := make([][]byte, ranks)
	for i := range bufs {
		b := make([]byte, n+8)
		for j := 0; j < n; j += 8 {
			binary.LittleEndian.PutUint64(b[j:], r.Uint64())
		}
		bufs[i] = b[:n:n]
	}
	return bufs
}

// reduced is the buffers combined in the order of ranks.
func reduced(bufs [][]byte, op *Operation) []byte {
	sum := append([]byte(nil), bufs[0]...)
	for _, b := range bufs[1:] {
		op.Kernel(sum, sum, b)
	}
	return sum
}

// joined is the buffers one after another.
func joined(bufs [][]byte) []byte {
	var all []byte
	for _, b := range bufs {
		all = append(all, b...)
	}
	return all
}

// clones is a copy of the buffers.
func clones(bufs [][]byte) [][]byte {
	c := make([][]byte, len(bufs))
	for i := range bufs {
		c[i] = append([]byte{}, bufs[i]...)
	}
	return c
}

// blanks is a buffer of n bytes per rank, with contents that no result has.
func blanks(ranks, n int) [][]byte {
	bufs := make([][]byte, ranks)
	for i := range bufs {
		bufs[i] = bytes.Repeat([]byte{0xdd}, n)
	}
	return bufs
}

// randomLayout is a block of up to most elements per rank, in any order and with gaps, and the bytes that they span.
func randomLayout(r *rand.Rand, ranks, most, elem int) (l Layout, span int) {
	l = Layout{Counts: make([]int, ranks), Displs: make([]int, ranks), Elem: elem}
	at := 0
	for _, i := range r.Perm(ranks) {
		if r.IntN(4) > 0 {
			l.Counts[i] = r.IntN(most + 1)
		}
		l.Displs[i] = at
		at += l.Counts[i] + r.IntN(3)
	}
	return l, at * elem
}
