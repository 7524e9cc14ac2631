package perftest

// Unsafe because a peer's WRITE changes memory that no Go code writes. Without an atomic load, the compiler may read it only
// once and spin on that value. Go has atomic loads of words but not of bytes.

import (
	"sync/atomic"
	"unsafe"
)

// lastByte reads the last byte of a buffer. The buffer must begin at a multiple of four and have room for a whole last word.
func lastByte(b []byte) byte {
	const word = 4
	i := len(b) - 1
	w := atomic.LoadUint32((*uint32)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), i&^(word-1))))
	return (*[word]byte)(unsafe.Pointer(&w))[i&(word-1)]
}
