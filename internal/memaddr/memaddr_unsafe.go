// Package memaddr returns the addresses of slices as numbers, which is how RDMA requests, registered regions and other
// processes name memory.
//
// It is unsafe because such a number does not keep the memory alive. Go does not move objects of the heap, so the number stays
// right as long as the caller keeps a reference to the slice.
package memaddr

import "unsafe"

// Of returns the address of the first byte of b, or 0 for nil. The address of an empty slice that is not nil has no meaning.
func Of(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
