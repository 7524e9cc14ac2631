//go:build linux

package uverbs

// Unsafe because mmap(2) replaces an existing mapping: that of a slice that Mmap returned.

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Discard replaces the mapping by empty memory in one system call, so that a concurrent reader never finds unmapped addresses.
func (system) Discard(mem []byte) error {
	_, err := unix.MmapPtr(-1, 0, unsafe.Pointer(unsafe.SliceData(mem)), uintptr(len(mem)),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_FIXED)
	return err
}
