package fabrictest

// Unsafe because peers talk by words of shared memory, which must be used with sync/atomic, and because its alignment
// is that of an address. Every word lies inside the slice that it was asked of.

import (
	"sync/atomic"
	"unsafe"
)

// wordAt returns the word with the given number in b.
func wordAt(b []byte, i int) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(&b[i*8:][:8][0]))
}

// misaligned is how far b begins after a multiple of n bytes.
func misaligned(b []byte, n int) int {
	return int(uintptr(unsafe.Pointer(unsafe.SliceData(b))) % uintptr(n))
}
