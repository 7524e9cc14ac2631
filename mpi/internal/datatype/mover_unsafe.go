// The blocks of a datatype are copied by loops that are compiled for each length of blocks, over addresses that are computed
// from strides. Bounds checks of each block would take longer than the copies. The caller has checked once that all blocks of
// a buffer are in its memory; pointers are computed from the beginning of that memory and only for bytes that are in it.

package datatype

import (
	"runtime"
	"sync/atomic"
	"unsafe"
)

// mover copies between scattered memory and packed bytes. Positions in both are offsets from their beginnings.
type mover struct {
	mem, packed unsafe.Pointer
	unpack      bool
	far         bool // the memory is larger than cachedSpan
	unpaced     bool // the memory is larger than pacedSpan
}

// newMover returns a mover. span is the memory that all elements occupy.
func newMover(mem, packed []byte, span int64, unpack bool) mover {
	return mover{unsafe.Pointer(unsafe.SliceData(mem)), unsafe.Pointer(unsafe.SliceData(packed)), unpack, span > cachedSpan,
		span > pacedSpan}
}

// nest is two nested loops over blocks of len bytes: n1 times n0 blocks. Strides are those of the outer (1) and of the inner
// loop (0), in memory and in packed bytes.
type nest struct {
	n1, n0           int64
	mem1, mem0       int64
	packed1, packed0 int64
	len              int64
}

// block copies n bytes.
func (m *mover) block(off, at, n int64) {
	dst, src := unsafe.Add(m.packed, at), unsafe.Add(m.mem, off)
	if m.unpack {
		dst, src = src, dst
	}
	copyBlock(dst, src, n)
}

// copyBlock copies n bytes. Short blocks are copied by two moves that may overlap.
func copyBlock(dst, src unsafe.Pointer, n int64) {
	switch {
	case n > 64:
		copy(unsafe.Slice((*byte)(dst), n), unsafe.Slice((*byte)(src), n))
	case n >= 32:
		pair[[32]byte](dst, src, n-32)
	case n >= 16:
		pair[[16]byte](dst, src, n-16)
	case n >= 8:
		pair[uint64](dst, src, n-8)
	case n >= 4:
		pair[uint32](dst, src, n-4)
	case n >= 2:
		pair[uint16](dst, src, n-2)
	default:
		*(*byte)(dst) = *(*byte)(src)
	}
}

// pair copies the T at the beginning and the one at second.
func pair[T any](dst, src unsafe.Pointer, second int64) {
	*(*T)(dst) = *(*T)(src)
	*(*T)(unsafe.Add(dst, second)) = *(*T)(unsafe.Add(src, second))
}

// nested copies blocks. The first is at off in memory and at at in the packed bytes.
func (m *mover) nested(n nest, off, at int64) {
	l := loops{dst: unsafe.Add(m.packed, at), src: unsafe.Add(m.mem, off), n1: n.n1, n0: n.n0,
		dst1: n.packed1, dst0: n.packed0, src1: n.mem1, src0: n.mem0, far: m.far, unpaced: m.unpaced}
	if m.unpack {
		l.dst, l.src = l.src, l.dst
		l.dst1, l.dst0, l.src1, l.src0 = l.src1, l.src0, l.dst1, l.dst0
	}
	switch n.len {
	case 1:
		copyLoops[byte](&l)
	case 2:
		copyLoops[uint16](&l)
	case 4:
		copyLoops[uint32](&l)
	case 8:
		copyLoops[uint64](&l)
	case 16:
		copyLoops[[16]byte](&l)
	case 32:
		copyLoops[[32]byte](&l)
	case 64:
		copyLoops[[64]byte](&l)
	default:
		copyAny(&l, n.len)
	}
}

// loops is a nest with the direction of the copy.
type loops struct {
	dst, src   unsafe.Pointer
	n1, n0     int64
	dst1, dst0 int64
	src1, src0 int64
	far        bool // see mover
	unpaced    bool // see mover
}

// copyLoops copies blocks of the size of T.
func copyLoops[T any](l *loops) {
	switch {
	case l.transposed():
		copyTransposed[T](l)
	case l.sameSets():
		copyPaced[T](l)
	case magnitude(l.dst0) > unrollStride || magnitude(l.src0) > unrollStride && !l.far:
		copySimple[T](l)
	default:
		copyUnrolled[T](l)
	}
}

const (
	// unrollStride is the greatest stride of a loop that is unrolled. Beyond it successive blocks are in different cache lines,
	// which processors prefetch when one instruction touches them in equal distances, but not when several take turns.
	unrollStride = 128
	// cachedSpan is the memory of a buffer that may be in some cache. Loads from a larger one are unrolled, so that more of them
	// are under way at once. It is half of a last-level cache of 32 MiB: the peer's buffer usually shares that cache.
	cachedSpan = 16 << 20
)

func copyUnrolled[T any](l *loops) {
	ds, ss := l.dst0, l.src0
	for i := range l.n1 {
		dst, src := unsafe.Add(l.dst, i*l.dst1), unsafe.Add(l.src, i*l.src1)
		d, s, n := int64(0), int64(0), l.n0
		for ; n >= 8; n -= 8 {
			to, from := unsafe.Add(dst, d), unsafe.Add(src, s)
			*(*T)(to) = *(*T)(from)
			*(*T)(unsafe.Add(to, ds)) = *(*T)(unsafe.Add(from, ss))
			*(*T)(unsafe.Add(to, 2*ds)) = *(*T)(unsafe.Add(from, 2*ss))
			*(*T)(unsafe.Add(to, 3*ds)) = *(*T)(unsafe.Add(from, 3*ss))
			to, from = unsafe.Add(to, 4*ds), unsafe.Add(from, 4*ss)
			*(*T)(to) = *(*T)(from)
			*(*T)(unsafe.Add(to, ds)) = *(*T)(unsafe.Add(from, ss))
			*(*T)(unsafe.Add(to, 2*ds)) = *(*T)(unsafe.Add(from, 2*ss))
			*(*T)(unsafe.Add(to, 3*ds)) = *(*T)(unsafe.Add(from, 3*ss))
			d += 8 * ds
			s += 8 * ss
		}
		for ; n > 0; n-- {
			*(*T)(unsafe.Add(dst, d)) = *(*T)(unsafe.Add(src, s))
			d += ds
			s += ss
		}
	}
}

// transposeTile is the number of iterations of each loop in a tile of a transposed copy.
const transposeTile = 8

// transposed reports whether successive iterations of the outer loop are in the same cache lines on one side, and those of the
// inner loop in as many lines that not all of them stay in the first-level cache until the next one: a matrix by columns.
func (l *loops) transposed() bool {
	outer, inner := magnitude(l.src1), magnitude(l.src0)
	if magnitude(l.dst1) < outer {
		outer, inner = magnitude(l.dst1), magnitude(l.dst0)
	}
	return l.n1 >= transposeTile && l.n0 >= 8*transposeTile && outer < 64 && inner >= 256
}

// copyTransposed copies in tiles, of which both sides stay in the first-level cache. Within a tile it stores line by line.
func copyTransposed[T any](l *loops) {
	d1, d0, s1, s0 := l.dst1, l.dst0, l.src1, l.src0
	for i := int64(0); i < l.n1; i += transposeTile {
		for j := int64(0); j < l.n0; j += transposeTile {
			dst, src := unsafe.Add(l.dst, i*d1+j*d0), unsafe.Add(l.src, i*s1+j*s0)
			n1, n0 := min(transposeTile, l.n1-i), min(transposeTile, l.n0-j)
			if magnitude(d1) < magnitude(d0) {
				copyTile[T](dst, src, n0, n1, d0, d1, s0, s1)
			} else {
				copyTile[T](dst, src, n1, n0, d1, d0, s1, s0)
			}
		}
	}
}

// copyTile copies n1 times n0 blocks of the size of T. All arguments are in registers.
func copyTile[T any](dst, src unsafe.Pointer, n1, n0, dst1, dst0, src1, src0 int64) {
	for i := range n1 {
		d, s := i*dst1, i*src1
		for range n0 {
			*(*T)(unsafe.Add(dst, d)) = *(*T)(unsafe.Add(src, s))
			d += dst0
			s += src0
		}
	}
}

func copySimple[T any](l *loops) {
	ds, ss, n := l.dst0, l.src0, l.n0
	for i := range l.n1 {
		dst, src := unsafe.Add(l.dst, i*l.dst1), unsafe.Add(l.src, i*l.src1)
		for j := range n {
			*(*T)(unsafe.Add(dst, j*ds)) = *(*T)(unsafe.Add(src, j*ss))
		}
	}
}

// Stores whose distance is a multiple of 512 bytes meet in an eighth of the sets of the first-level cache, or in fewer. If
// the processor begins more of them than these sets have lines, lines are evicted before they are written, and fetched again.
// On amd64 a locked instruction waits for all earlier stores. After every 16 stores it makes the loop up to three times
// faster while the memory is in some cache; beyond that it makes it slower.
const (
	sameSetStride = 512
	pacedStores   = 16
	pacedSpan     = 32 << 20 // memory of a buffer
)

// sameSets reports whether the stores of the loops meet in few sets of the first-level cache.
func (l *loops) sameSets() bool {
	stride := l.dst0
	if l.n0 < pacedStores {
		stride = l.dst1
	}
	return runtime.GOARCH == "amd64" && stride%sameSetStride == 0 && stride != 0 && l.n0*l.n1 > pacedStores && !l.unpaced
}

func copyPaced[T any](l *loops) {
	ds, ss, n := l.dst0, l.src0, l.n0
	left, wait := pacedStores, int32(0)
	for i := range l.n1 {
		dst, src := unsafe.Add(l.dst, i*l.dst1), unsafe.Add(l.src, i*l.src1)
		d, s := int64(0), int64(0)
		for range n {
			*(*T)(unsafe.Add(dst, d)) = *(*T)(unsafe.Add(src, s))
			d += ds
			s += ss
			if left--; left == 0 {
				atomic.SwapInt32(&wait, 0)
				left = pacedStores
			}
		}
	}
}

// copyPairs copies blocks of the size of T up to twice that, by two moves that may overlap.
func copyPairs[T any](l *loops, second int64) {
	for i := range l.n1 {
		dst, src := unsafe.Add(l.dst, i*l.dst1), unsafe.Add(l.src, i*l.src1)
		for j := range l.n0 {
			pair[T](unsafe.Add(dst, j*l.dst0), unsafe.Add(src, j*l.src0), second)
		}
	}
}

// copyAny copies blocks of n bytes.
func copyAny(l *loops, n int64) {
	switch {
	case n > 64:
		for i := range l.n1 {
			dst, src := unsafe.Add(l.dst, i*l.dst1), unsafe.Add(l.src, i*l.src1)
			for j := range l.n0 {
				copy(unsafe.Slice((*byte)(unsafe.Add(dst, j*l.dst0)), n), unsafe.Slice((*byte)(unsafe.Add(src, j*l.src0)), n))
			}
		}
	case n > 32:
		copyPairs[[32]byte](l, n-32)
	case n > 16:
		copyPairs[[16]byte](l, n-16)
	case n > 8:
		copyPairs[uint64](l, n-8)
	case n > 4:
		copyPairs[uint32](l, n-4)
	default:
		copyPairs[uint16](l, n-2)
	}
}

// gather copies blocks of n bytes, which are at base + offs[i] in memory, and from at on in the packed bytes.
func (m *mover) gather(base int64, offs []int64, at, n int64) {
	if len(offs) == 0 {
		return // at may be the end of the packed bytes, to which a pointer must not be made
	}
	switch {
	case n == 1:
		gather[byte](m, base, offs, at)
	case n == 2:
		gather[uint16](m, base, offs, at)
	case n == 4:
		gather[uint32](m, base, offs, at)
	case n == 8:
		gather[uint64](m, base, offs, at)
	case n == 16:
		gather[[16]byte](m, base, offs, at)
	case n > 64 || n < 8:
		for _, off := range offs {
			m.block(base+off, at, n)
			at += n
		}
	case n > 32:
		gatherPairs[[32]byte](m, base, offs, at, n)
	case n > 16:
		gatherPairs[[16]byte](m, base, offs, at, n)
	default:
		gatherPairs[uint64](m, base, offs, at, n)
	}
}

// gather copies blocks of the size of T.
func gather[T any](m *mover, base int64, offs []int64, at int64) {
	packed, mem := unsafe.Add(m.packed, at), m.mem
	var t T
	if m.unpack {
		for i, off := range offs {
			*(*T)(unsafe.Add(mem, base+off)) = *(*T)(unsafe.Add(packed, uintptr(i)*unsafe.Sizeof(t)))
		}
		return
	}
	for i, off := range offs {
		*(*T)(unsafe.Add(packed, uintptr(i)*unsafe.Sizeof(t))) = *(*T)(unsafe.Add(mem, base+off))
	}
}

// gatherPairs copies blocks of n bytes, of the size of T up to twice that, by two moves that may overlap.
func gatherPairs[T any](m *mover, base int64, offs []int64, at, n int64) {
	packed, mem := unsafe.Add(m.packed, at), m.mem
	var t T
	second := n - int64(unsafe.Sizeof(t))
	if m.unpack {
		for i, off := range offs {
			pair[T](unsafe.Add(mem, base+off), unsafe.Add(packed, int64(i)*n), second)
		}
		return
	}
	for i, off := range offs {
		pair[T](unsafe.Add(packed, int64(i)*n), unsafe.Add(mem, base+off), second)
	}
}
