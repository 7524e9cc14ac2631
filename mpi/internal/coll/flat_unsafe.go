// Ranks that share memory tell each other what they have done by words in it. Only atomic operations and Waiters
// touch these words, and they lie on lines of their own, so all that has to be right is that an offset is a
// multiple of eight.

package coll

import "unsafe"

// word is the word at an offset of memory that begins at a multiple of 128.
func word(mem []byte, off int) *uint64 {
	return (*uint64)(unsafe.Pointer(&mem[off : off+8][0]))
}

// aligned tells whether memory begins at a multiple of 128.
func aligned(mem []byte) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(mem)))%line == 0
}
