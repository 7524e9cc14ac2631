// The loops of the benchmarks are what a program would do with its own slices of float64, so the memory of the types is
// converted to words.

package datatype

import "unsafe"

// words returns the whole words of b, which the benchmarks allocate large enough to be aligned.
func words(b []byte) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/8)
}
