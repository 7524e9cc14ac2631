package shm

// Unsafe because where a cache line begins is a matter of addresses.

import "unsafe"

const lineBytes = 64

// Stream copies src to dst, which is as long, with stores that go past the caches where the processor has such. It is
// for some kilobytes of memory that another core has read and reads next, as a copy that need not fetch the lines from
// that core's cache first. Whoever sees a store made after it sees the copy.
func Stream(dst, src []byte) {
	n := copy(dst[:min(len(dst), int(-uintptr(unsafe.Pointer(unsafe.SliceData(dst)))&(lineBytes-1)))], src)
	lines := (len(dst) - n) &^ (lineBytes - 1)
	streamLines(dst[n:n+lines], src[n:n+lines])
	copy(dst[n+lines:], src[n+lines:])
}
