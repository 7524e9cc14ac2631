package shm

// Unsafe because the address of a buffer determines where its cache lines begin.

import "unsafe"

const lineBytes = 64 // of a cache line

// CopyNonTemporal copies src to dst, which has the same length, with stores that go past the caches where the processor has them.
// It is meant for some kilobytes of memory that another core has read and reads next: such a copy does not fetch the lines from
// that core's cache first. A core that sees a store made after CopyNonTemporal also sees the copied bytes.
func CopyNonTemporal(dst, src []byte) {
	n := copy(dst[:min(len(dst), int(-uintptr(unsafe.Pointer(unsafe.SliceData(dst)))&(lineBytes-1)))], src)
	lines := (len(dst) - n) &^ (lineBytes - 1)
	copyLines(dst[n:n+lines], src[n:n+lines])
	copy(dst[n+lines:], src[n+lines:])
}
