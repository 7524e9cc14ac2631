// Reductions are given bytes, so that the code above them is compiled once; here the bytes become elements. The
// only thing to keep right is the length, which is cut down to whole elements of the shortest slice.

package datatype

import "unsafe"

// operands views three byte slices as elements, all three with the same length so that the compiler drops bounds
// checks.
func operands[T number](dst, a, b []byte) (d, x, y []T) {
	n := min(len(dst), len(a), len(b)) / int(unsafe.Sizeof(*new(T)))
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(dst))), n),
		unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(a))), n),
		unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n)
}
