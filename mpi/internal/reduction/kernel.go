package reduction

import (
	"encoding/binary"
	"math"
)

type integer interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}

type floating interface{ float32 | float64 }

type number interface {
	integer | floating | complex64 | complex128
}

func sum[T number](dst, a, b []byte) {
	d, x, y := operands[T](dst, a, b)
	for i := range d {
		d[i] = x[i] + y[i]
	}
}

func prod[T number](dst, a, b []byte) {
	d, x, y := operands[T](dst, a, b)
	for i := range d {
		d[i] = x[i] * y[i]
	}
}

func minInt[T integer](dst, a, b []byte) {
	d, x, y := operands[T](dst, a, b)
	for i := range d {
		d[i] = min(x[i], y[i])
	}
}

func maxInt[T integer](dst, a, b []byte) {
	d, x, y := operands[T](dst, a, b)
	for i := range d {
		d[i] = max(x[i], y[i])
	}
}

// nan returns the NaN with all bits set, in the width of T.
func nan[T floating]() T { return T(math.Float64frombits(math.MaxUint64)) }

func minFloat[T floating](dst, a, b []byte) {
	d, x, y := operands[T](dst, a, b)
	for i := range d {
		m := min(x[i], y[i])
		if m != m {
			m = nan[T]()
		}
		d[i] = m
	}
}

func maxFloat[T floating](dst, a, b []byte) {
	d, x, y := operands[T](dst, a, b)
	for i := range d {
		m := max(x[i], y[i])
		if m != m {
			m = nan[T]()
		}
		d[i] = m
	}
}

// truth returns 1 for true and 0 for false.
func truth[T integer](b bool) T {
	if b {
		return 1
	}
	return 0
}

func land[T integer](dst, a, b []byte) {
	d, x, y := operands[T](dst, a, b)
	for i := range d {
		d[i] = truth[T](x[i] != 0 && y[i] != 0)
	}
}

func lor[T integer](dst, a, b []byte) {
	d, x, y := operands[T](dst, a, b)
	for i := range d {
		d[i] = truth[T](x[i]|y[i] != 0)
	}
}

func lxor[T integer](dst, a, b []byte) {
	d, x, y := operands[T](dst, a, b)
	for i := range d {
		d[i] = truth[T]((x[i] != 0) != (y[i] != 0))
	}
}

// The bitwise operations do not depend on the size of elements, so they process eight bytes at a time for every kind.

func band(dst, a, b []byte) {
	for ; len(dst) >= 8; dst, a, b = dst[8:], a[8:], b[8:] {
		binary.NativeEndian.PutUint64(dst, binary.NativeEndian.Uint64(a)&binary.NativeEndian.Uint64(b))
	}
	for i := range dst {
		dst[i] = a[i] & b[i]
	}
}

func bor(dst, a, b []byte) {
	for ; len(dst) >= 8; dst, a, b = dst[8:], a[8:], b[8:] {
		binary.NativeEndian.PutUint64(dst, binary.NativeEndian.Uint64(a)|binary.NativeEndian.Uint64(b))
	}
	for i := range dst {
		dst[i] = a[i] | b[i]
	}
}

func bxor(dst, a, b []byte) {
	for ; len(dst) >= 8; dst, a, b = dst[8:], a[8:], b[8:] {
		binary.NativeEndian.PutUint64(dst, binary.NativeEndian.Uint64(a)^binary.NativeEndian.Uint64(b))
	}
	for i := range dst {
		dst[i] = a[i] ^ b[i]
	}
}

// blockBytes is the number of bytes that the vector functions named Blocks combine at once.
const blockBytes = 16

// combineBlocks combines whole blocks by a vector function, and the rest by the portable one.
func combineBlocks(dst, a, b []byte, blocks, portable Func) {
	n := len(dst) / blockBytes * blockBytes
	blocks(dst[:n], a[:n], b[:n])
	portable(dst[n:], a[n:], b[n:])
}

func bandVector(dst, a, b []byte) { combineBlocks(dst, a, b, bandBlocks, band) }
func borVector(dst, a, b []byte)  { combineBlocks(dst, a, b, borBlocks, bor) }
func bxorVector(dst, a, b []byte) { combineBlocks(dst, a, b, bxorBlocks, bxor) }
