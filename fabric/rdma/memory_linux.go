package rdma

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// mapMemory maps memory that is not the Go heap's, so that the collector has nothing to do with what devices write.
func mapMemory(bytes int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes: %w", bytes, err)
	}
	return b, nil
}

func unmapMemory(b []byte) { _ = unix.Munmap(b) } // it was mapped, so this cannot fail
