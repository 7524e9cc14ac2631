package devices

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// MapMemory allocates memory outside of the Go heap, so that the garbage collector never accesses
// what devices write.
func MapMemory(bytes int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes: %w", bytes, err)
	}
	return b, nil
}

// UnmapMemory frees memory of MapMemory.
func UnmapMemory(b []byte) { _ = unix.Munmap(b) } // it was mapped, so this cannot fail
