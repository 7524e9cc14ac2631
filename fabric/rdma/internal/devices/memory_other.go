//go:build !linux

package devices

import (
	"fmt"

	"github.com/ibrun/ibrun/fabric"
)

// MapMemory returns an error: RDMA needs Linux.
func MapMemory(int) ([]byte, error) {
	return nil, fmt.Errorf("fabric/rdma: %w: RDMA between processes needs Linux", fabric.ErrNotSupported)
}

// UnmapMemory does nothing: no memory was mapped.
func UnmapMemory([]byte) {}
