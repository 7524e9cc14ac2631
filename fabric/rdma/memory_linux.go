package rdma

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// mapMemory allocates memory outside of the Go heap, so that the garbage collector never accesses what devices write.
func mapMemory(bytes int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes: %w", bytes, err)
	}
	return b, nil
}

// unmapMemory frees memory of mapMemory.
func unmapMemory(b []byte) { _ = unix.Munmap(b) } // it was mapped, so this cannot fail
