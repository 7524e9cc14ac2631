package perftest

// Unsafe because a peer's WRITE changes memory that no Go code writes: without an atomic load, which Go has for words and not for
// bytes, the compiler may read it once and spin on what it read.

import (
	"sync/atomic"
	"unsafe"
)

// lastByte reads the last byte of a buffer that begins at a multiple of four and has room for a whole last word.
func lastByte(b []byte) byte {
	const word = 4
	i := len(b) - 1
	w := atomic.LoadUint32((*uint32)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), i&^(word-1))))
	return (*[word]byte)(unsafe.Pointer(&w))[i&(word-1)]
}
