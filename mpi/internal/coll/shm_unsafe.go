// Ranks synchronize by words in shared memory. Only atomic operations and implementations of WordSync access these words, and
// each has a cache line of its own. The words beside them are written before them, and read after them. So the only precondition
// is that an offset is a multiple of eight.

package coll

import "unsafe"

// word returns the word at an offset of memory that begins at a multiple of 128.
func word(mem []byte, off int) *uint64 {
	return (*uint64)(unsafe.Pointer(&mem[off : off+8][0]))
}

// aligned reports whether memory begins at a multiple of 128.
func aligned(mem []byte) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(mem)))%line == 0
}
