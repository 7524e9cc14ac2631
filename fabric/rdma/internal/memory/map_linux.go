package memory

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Map allocates memory outside of the Go heap, so that the garbage collector never accesses
// what devices write.
func Map(bytes int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes: %w", bytes, err)
	}
	return b, nil
}

// Unmap frees memory of Map.
func Unmap(b []byte) { _ = unix.Munmap(b) } // it was mapped, so this cannot fail
