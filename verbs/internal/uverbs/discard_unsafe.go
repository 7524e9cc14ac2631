//go:build linux

package uverbs

// Unsafe because mmap(2) is told where to map: over a mapping that is ours, as the slice that Mmap returned for it tells.

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Discard lays empty memory over the mapping in one step, so that who reads it meanwhile never finds nothing there.
func (system) Discard(mem []byte) error {
	_, err := unix.MmapPtr(-1, 0, unsafe.Pointer(unsafe.SliceData(mem)), uintptr(len(mem)),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_FIXED)
	return err
}
