package fabrictest

// Unsafe because peers communicate through words of shared memory with sync/atomic, and because alignment is a property of an
// address. Every word lies inside the slice that it was taken from.

import (
	"sync/atomic"
	"unsafe"
)

// wordAt returns the word with the given number in b.
func wordAt(b []byte, i int) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(&b[i*8:][:8][0]))
}

// misalignment returns by how many bytes the address of b exceeds a multiple of n.
func misalignment(b []byte, n int) int {
	return int(uintptr(unsafe.Pointer(unsafe.SliceData(b))) % uintptr(n))
}
