// Unsafe: devices name memory by its address, and a slice has to be found in the region that it is part of.

package rdma

import "unsafe"

// addressOf is where a slice begins.
func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
