// The operands of reductions are bytes, so that the code of the collectives is compiled once; here they are converted to
// elements. The only precondition is the length, which is reduced to whole elements of the shortest slice.

package reduction

import "unsafe"

// operands returns three byte slices as elements, all with the same length so that the compiler eliminates bounds checks.
func operands[T number](dst, a, b []byte) (d, x, y []T) { return elements[T](dst, a, b) }

// elements is operands for elements of any type without pointers.
func elements[T any](dst, a, b []byte) (d, x, y []T) {
	n := min(len(dst), len(a), len(b)) / int(unsafe.Sizeof(*new(T)))
	if n == 0 {
		return nil, nil, nil // a pointer to less than one element must not become a *T
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(dst))), n),
		unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(a))), n),
		unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n)
}
